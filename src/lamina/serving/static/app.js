// The page: what is typed is translated, and every word of the result can be asked where it comes from.

import * as api from "./api.js";
import { draw } from "./layers.js";
import { menuFor, closeMenu } from "./menu.js";
import { Output } from "./output.js";
import { common, sourceWeights, split, strongest } from "./words.js";

const $ = (id) => document.getElementById(id);
const PAUSE = 250; // milliseconds after the last key
const DETAILED = 1500; // characters: longer texts are translated without details
const state = { models: [], limit: 5000, request: null, timer: null, body: null };

const outputs = { main: new Output($("output"), selectWord, chooseWord), other: new Output($("other-output"), selectWord) };

function say(message, bad = false) {
  $("status").textContent = message;
  $("status").classList.toggle("bad", bad);
}

const key = () => $("key").value.trim() || null;
const model = (id) => state.models.find(({ name }) => name === $(id).value);
const describe = ({ source, target }) => (source === target ? source : `${source} → ${target}`);

function requestBody(text, name, more = {}) {
  const task = state.models.find((each) => each.name === name).task;
  const body = { texts: [text], model: name };
  if (task !== "summarization" && !more.prefixes) body.format = "text";
  return { ...body, ...more };
}

async function translateNow() {
  const text = $("source").value;
  state.request?.abort();
  clearTimeout(state.timer);
  closeMenu();
  $("count").textContent = `${text.length.toLocaleString("en")} / ${state.limit.toLocaleString("en")}`;
  if (!text.trim() || !state.models.length) {
    clearResult();
    return;
  }
  const request = state.request = new AbortController();
  const details = text.length <= DETAILED;
  const nbest = Math.max(1, Math.min(10, Number($("nbest").value) || 1));
  const body = state.body = requestBody(text, $("model").value, { details, ...(nbest > 1 ? { nbest } : {}) });
  $("output").classList.add("busy");
  try {
    const wanted = [api.translate(body, key(), request.signal)];
    if ($("compare").checked) {
      const second = requestBody(text, $("other").value, { details });
      wanted.push(api.translate(second, key(), request.signal));
    }
    const started = performance.now();
    const [answer, second] = await Promise.all(wanted);
    showResult(text, answer.results[0], second?.results[0]);
    showCurl(api.curl({ ...body, details: undefined }, key()));
    const count = outputs.main.edits;
    const told = $("edits").checked ? `${count} ${count === 1 ? "edit" : "edits"}` : "Translated";
    say(`${told} in ${Math.round(performance.now() - started)} ms.`);
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message, true);
    if (error.status === 401) $("key-label").hidden = false;
    if (error.retryAfter && error.status !== 429) setTimeout(() => request === state.request && translateNow(), 1000 * error.retryAfter);
  } finally {
    if (request === state.request) $("output").classList.remove("busy");
  }
}

function clearResult() {
  outputs.main.clear();
  outputs.other.clear();
  $("backdrop").replaceChildren();
  for (const id of ["candidates", "layers", "legend", "accept-all", "reject-all"]) $(id).hidden = true;
  $("score").textContent = $("other-score").textContent = "";
  $("output").classList.remove("busy");
  say("");
}

function showResult(text, result, second) {
  const correction = $("edits").checked;
  $("accept-all").hidden = $("reject-all").hidden = !correction;
  outputs.main.show(text, result, $("model").value, correction);
  $("score").textContent = result.sentences.length ? `score ${result.score.toFixed(2)}` : "";
  if (second) {
    outputs.other.show(text, second, $("other").value);
    if (!correction) outputs.main.markDifferences(outputs.other);
    $("other-score").textContent = `score ${second.score.toFixed(2)}`;
  }
  $("backdrop").replaceChildren();
  showCandidates(result);
  const first = outputs.main.words[0];
  $("layers").hidden = !first?.sentence.attention;
  if (first?.sentence.attention) draw($("panels"), $("layers-about"), first.sentence, first.word, first.model);
}

function showCandidates({ nbest }) {
  $("candidates").hidden = nbest.length < 2;
  const best = split(nbest[0].text);
  $("candidate-list").replaceChildren(...nbest.map(({ text, score }) => {
    const item = document.createElement("li"), words = split(text);
    const shared = new Set(common(best, words).map(([, index]) => index));
    item.append(...words.map((word, index) =>
      (shared.has(index) || !word.trim() ? word : Object.assign(document.createElement("b"), { textContent: word }))));
    item.append(Object.assign(document.createElement("span"), { className: "number", textContent: score.toFixed(3) }));
    return item;
  }));
}

function showCurl(command) {
  $("curl").textContent = command;
  $("request").hidden = false;
}

// What a word attends to, marked behind the source text.
function selectWord(entry) {
  const { sentence, word, offset } = entry;
  if (!sentence.attention) return;
  const weights = sourceWeights(sentence.attention, word.tokens, sentence.source_words);
  const reader = (sentence.surface ?? sentence.pointer)?.attention;
  const surface = reader ? strongest(sourceWeights(reader, word.tokens, sentence.source_words)) : -1;
  const top = strongest(weights), most = Math.max(...weights, 1e-6);
  const text = $("source").value;
  const parts = [];
  let position = 0;
  entry.places.forEach((place, number) => {
    if (!place || offset === null) return;
    const [start, end] = [offset + place[0], offset + place[1]];
    parts.push(text.slice(position, start));
    const mark = Object.assign(document.createElement("mark"), { textContent: text.slice(start, end) });
    mark.classList.toggle("strongest", number === top);
    mark.classList.toggle("surface", number === surface);
    mark.style.setProperty("--weight", weights[number] / most);
    parts.push(mark);
    position = end;
  });
  $("backdrop").replaceChildren(...parts, text.slice(position));
  $("legend").hidden = false;
  $("legend-reader").hidden = surface < 0;
  $("legend-reader").textContent = sentence.pointer ? "copied from" : "read by SurfaceFusion";
  $("backdrop").scrollTop = $("source").scrollTop;
  draw($("panels"), $("layers-about"), sentence, word, entry.model);
  $("layers").hidden = false;
}

// Alternatives of a word: the most likely other beginnings, each continued by the model.
async function chooseWord(entry, button) {
  const { sentence, word, start } = entry;
  if (!sentence.alternatives) return;
  const before = sentence.text.slice(0, start);
  const pieces = sentence.alternatives[word.tokens[0]]
    .map(([symbol]) => symbol)
    .filter((symbol) => !/^<(?!0x)/.test(symbol) && !/^<0x/.test(symbol))
    .map((symbol) => symbol.replaceAll("▁", "").replace(/@@$/, ""))
    .filter(Boolean);
  const name = $("model").value;
  const ask = async () => {
    if (!pieces.length) return [];
    const prefixes = pieces.map((piece) => before + piece);
    const body = requestBody("", name, { prefixes });
    body.texts = prefixes.map(() => sentence.source);
    const { results } = await api.translate(body, key());
    const found = new Map();
    for (const { text } of results) {
      const rest = text.slice(before.length);
      const first = /^\s*\S+/.exec(rest)?.[0] || "";
      if (first.trim() && first.trim() !== word.text && !found.has(first)) found.set(first, text);
    }
    return [...found].map(([first, text]) => ({ label: first.trim(), rest: text.slice(before.length + first.length), text, end: before.length + first.length }));
  };
  const chosen = await menuFor(button, ask);
  if (!chosen) return;
  try {
    const prefix = chosen.text.slice(0, chosen.end);
    const body = requestBody(sentence.source, name, { prefixes: [prefix], details: true });
    const { results } = await api.translate(body, key());
    outputs.main.replaceSentence(entry.number, results[0].sentences[0], prefix.length);
    if ($("compare").checked) outputs.main.markDifferences(outputs.other);
    showCurl(api.curl({ ...body, details: undefined }, key()));
    outputs.main.focusAt(entry.index);
    say("Continued from your choice.");
  } catch (error) {
    say(error.message, true);
  }
}

async function translateFile(file) {
  const formats = { txt: "text", md: "text", html: "html", htm: "html", srt: "srt", vtt: "vtt" };
  const format = formats[file.name.split(".").pop().toLowerCase()];
  if (!format) return say("Unsupported file type: use .txt, .md, .html, .srt or .vtt.", true);
  const text = await file.text();
  const body = { texts: [text], model: $("model").value, format };
  $("progress-area").hidden = false;
  $("download").hidden = true;
  let done = 0;
  showCurl(api.curlOfFile(file.name, body, key()));
  try {
    await api.stream(body, key(), undefined, (name, data) => {
      if (name === "sentence") {
        $("progress").value = ++done / data.sentences;
        say(`${file.name}: ${done} of ${data.sentences} sentences`);
      } else if (name === "error") {
        throw new Error(data.error.message);
      } else {
        if (state.file) URL.revokeObjectURL(state.file);
        state.file = URL.createObjectURL(new Blob([data.results[0].text], { type: "text/plain" }));
        Object.assign($("download"), { href: state.file, download: `translated-${file.name}`, hidden: false });
        $("progress").value = 1;
        say(`${file.name}: translated.`);
      }
    });
  } catch (error) {
    $("progress-area").hidden = true;
    say(error.message, true);
  }
}

function setUpTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const wanted = localStorage.getItem("theme") || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = wanted;
    $("theme").setAttribute("aria-pressed", wanted === "dark");
  };
  dark.addEventListener("change", apply);
  $("theme").addEventListener("click", () => {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  apply();
}

function chooseModels() {
  for (const id of ["model", "other"]) {
    $(id).replaceChildren(...state.models.map((each) =>
      new Option(`${each.name} (${describe(each)}, ${each.system})`, each.name)));
  }
  $("compare").disabled = state.models.length < 2;
  updateModel();
}

function reverse() {
  const { source, target } = model("model");
  return state.models.find((each) => each.source === target && each.target === source && source !== target);
}

function updateModel(changed = true) {
  const chosen = model("model");
  if (!chosen) return;
  if (changed) { // to another model
    $("edits").checked = chosen.task === "correction";
    if ($("other").value === chosen.name) $("other").value = state.models.find((each) => each !== chosen)?.name ?? chosen.name;
  }
  $("source-title").textContent = `Source (${chosen.source})`;
  const title = chosen.task === "correction" ? "Corrections" : `Result (${chosen.target})`;
  $("target-title").textContent = $("compare").checked ? chosen.name : title;
  $("other-title").textContent = $("other").value;
  $("other").hidden = $("other-pane").hidden = !$("compare").checked;
  $("swap").disabled = !reverse();
  $("swap").title = reverse() ? "Swap languages" : "No model translates in the other direction";
}

async function copyText(text) {
  const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  if (copied || copyByCommand(text)) say("Copied.");
  else say("The browser blocked copying.", true);
}

// The clipboard of pages that do not come from this machine or by TLS.
function copyByCommand(text) {
  const focused = document.activeElement;
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "copied" });
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

function setUpControls() {
  $("source").addEventListener("input", () => {
    $("backdrop").replaceChildren();
    $("output").classList.add("busy");
    state.request?.abort();
    state.request = null;
    clearTimeout(state.timer);
    state.timer = setTimeout(translateNow, PAUSE);
  });
  $("source").addEventListener("scroll", () => { $("backdrop").scrollTop = $("source").scrollTop; });
  $("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateNow();
  });
  for (const id of ["model", "other", "compare", "nbest"]) {
    $(id).addEventListener("change", () => { updateModel(id === "model"); translateNow(); });
  }
  $("edits").addEventListener("change", translateNow);
  $("key").addEventListener("change", start);
  $("key-form").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("resize", closeMenu);
  $("tint").addEventListener("change", () => {
    for (const id of ["output", "other-output"]) $(id).classList.toggle("tinted", $("tint").checked);
  });
  $("swap").addEventListener("click", () => {
    const other = reverse();
    if (!other) return;
    $("source").value = outputs.main.text || $("source").value;
    $("model").value = other.name;
    updateModel();
    translateNow();
  });
  $("clear").addEventListener("click", () => { $("source").value = ""; translateNow(); $("source").focus(); });
  $("copy").addEventListener("click", () => copyText(outputs.main.text));
  $("copy-curl").addEventListener("click", () => copyText($("curl").textContent));
  $("accept-all").addEventListener("click", () => outputs.main.settleAll("accepted"));
  $("reject-all").addEventListener("click", () => outputs.main.settleAll("rejected"));
  $("file").addEventListener("change", () => { if ($("file").files[0]) translateFile($("file").files[0]); $("file").value = ""; });
}

async function start() {
  try {
    state.models = await api.models(key());
    state.limit = (await api.settings()).charLimit;
    chooseModels();
    say("");
    translateNow();
  } catch (error) {
    if (error.status === 401) {
      $("key-label").hidden = false;
      return say("This server requires a valid API key.", true);
    }
    say(`${error.message}`, true);
    if (error.status === 503) setTimeout(start, 2000);
  }
}

setUpTheme();
setUpControls();
start();
