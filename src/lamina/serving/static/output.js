// A result: words that can be pointed at, or the edits of a correction.

import { common, edits, locate } from "./words.js";

export class Output {
  constructor(place, onSelect, onChoose) {
    Object.assign(this, { place, onSelect, onChoose, words: [], text: "", parts: [] });
    place.addEventListener("keydown", (event) => this.move(event));
  }

  clear() {
    this.words = [];
    this.parts = [];
    this.text = this.place.dataset.text = "";
    this.place.replaceChildren();
  }

  // A result of the API for a source text; a correction is shown as edits to accept or reject.
  show(source, result, model, correction = false) {
    Object.assign(this, { source, model, correction, sentences: result.sentences });
    this.forced = this.sentences.map(() => 0);
    this.offsets = locate(source, this.sentences.map((each) => each.source));
    const places = locate(result.text, this.sentences.map((each) => each.text));
    let position = 0;
    this.between = places.map((place) => {
      const text = place ? result.text.slice(position, place[0]) : "";
      if (place) position = place[1];
      return text;
    });
    this.between.push(result.text.slice(position));
    this.draw();
  }

  draw() {
    this.words = [];
    this.parts = [];
    const nodes = [];
    this.sentences.forEach((sentence, number) => {
      nodes.push(this.between[number], ...this.drawSentence(sentence, number));
    });
    nodes.push(this.between.at(-1) ?? "");
    if (this.correction) {
      this.drawEdits(nodes);
    } else {
      this.place.replaceChildren(...nodes);
      this.text = this.place.dataset.text = this.place.textContent;
    }
    this.words.forEach((entry, index) => {
      entry.index = index;
      entry.button.tabIndex = index ? -1 : 0;
    });
  }

  drawSentence(sentence, number) {
    if (!sentence.words) return [sentence.text];
    const offset = this.offsets[number]?.[0] ?? null;
    const places = locate(sentence.source, sentence.source_words.map(({ text }) => text));
    const nodes = [];
    let position = 0;
    locate(sentence.text, sentence.words.map(({ text }) => text)).forEach((place, index) => {
      if (!place) return;
      nodes.push(sentence.text.slice(position, place[0]));
      position = place[1];
      nodes.push(this.drawWord({ sentence, number, model: this.model, offset, places, word: sentence.words[index], start: place[0] }));
    });
    nodes.push(sentence.text.slice(position));
    return nodes;
  }

  drawWord(entry) {
    const button = entry.button = document.createElement("span"); // a real button would let a line end before a full stop
    this.words.push(entry);
    const probability = Math.min(...entry.sentence.probabilities.slice(...entry.word.tokens));
    Object.assign(button, { role: "button", className: "word", textContent: entry.word.text });
    button.title = `probability ${probability.toFixed(2)}`;
    button.style.setProperty("--doubtful", 1 - probability);
    button.classList.toggle("forced", entry.start < this.forced[entry.number]);
    button.addEventListener("pointerenter", () => this.select(entry));
    button.addEventListener("focus", () => this.select(entry));
    button.addEventListener("click", () => this.onChoose?.(entry, button));
    return button;
  }

  select(entry) {
    if (!this.onSelect) return;
    this.words.forEach(({ button }) => {
      button.classList.toggle("selected", button === entry.button);
      button.tabIndex = button === entry.button ? 0 : -1;
    });
    this.onSelect(entry);
  }

  move(event) {
    const current = this.words.findIndex(({ button }) => button === document.activeElement);
    if (current < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      document.activeElement.click();
    }
    const last = this.words.length - 1;
    const next = { ArrowRight: current + 1, ArrowDown: current + 1, ArrowLeft: current - 1, ArrowUp: current - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.words[Math.max(0, Math.min(last, next))].button.focus();
  }

  focusAt(index) {
    this.words[Math.min(index, this.words.length - 1)]?.button.focus();
  }

  replaceSentence(number, sentence, forced) {
    this.sentences[number] = sentence;
    this.forced[number] = forced;
    this.draw();
  }

  // Mark words that the other output has not, and the other way round.
  markDifferences(other) {
    const own = this.words.map(({ word }) => word.text), theirs = other.words.map(({ word }) => word.text);
    const pairs = common(own, theirs);
    const mine = new Set(pairs.map(([index]) => index)), kept = new Set(pairs.map(([, index]) => index));
    this.words.forEach(({ button }, index) => button.classList.toggle("differs", !mine.has(index)));
    other.words.forEach(({ button }, index) => button.classList.toggle("differs", !kept.has(index)));
  }

  // Words and the text between them, cut where edits begin and end; until it is settled an edit counts as accepted.
  drawEdits(nodes) {
    const text = nodes.map((node) => node.textContent ?? node).join("");
    const cut = cutter(nodes);
    this.parts = edits(this.source, text);
    this.place.replaceChildren(...this.parts.flatMap((part) =>
      ("kept" in part ? cut(part.kept.length) : [this.drawEdit(part, cut(part.after.length))])));
    this.words = this.words.filter(({ button }) => button.isConnected);
    this.update();
  }

  drawEdit(part, written) {
    const make = (name, content) => {
      const made = document.createElement(name);
      made.append(...content);
      return made;
    };
    const box = part.box = document.createElement("span");
    box.className = "edit";
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", describeEdit(part.before, part.after));
    if (part.before) box.append(make("del", [visible(part.before)]));
    if (part.after) box.append(make("ins", part.after.trim() ? written : [visible(part.after)]));
    for (const [sign, label, wanted] of [["✓", "Accept", "accepted"], ["✗", "Reject", "rejected"]]) {
      const button = make("button", [sign]);
      Object.assign(button, { type: "button", className: wanted, title: label });
      button.setAttribute("aria-label", `${label} this edit`);
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => this.settle(part, wanted));
      box.append(button);
    }
    return box;
  }

  settle(part, wanted) {
    part.state = part.state === wanted ? undefined : wanted;
    part.box.classList.toggle("accepted", part.state === "accepted");
    part.box.classList.toggle("rejected", part.state === "rejected");
    for (const button of part.box.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.classList.contains(part.state ?? "none"));
    }
    this.update();
  }

  settleAll(wanted) {
    for (const part of this.parts) if (part.box && part.state !== wanted) this.settle(part, wanted);
  }

  get edits() {
    return this.parts.filter((part) => part.box).length;
  }

  update() {
    this.text = this.parts.map((part) =>
      ("kept" in part ? part.kept : part.state === "rejected" ? part.before : part.after)).join("");
    this.place.dataset.text = this.text;
  }
}

const visible = (text) => (text.trim() ? text : "␣".repeat(text.length));

function describeEdit(before, after) {
  const named = (text) => (text.trim() ? `“${text.trim()}”` : "space");
  if (!before) return `Edit: ${named(after)} is inserted`;
  return after ? `Edit: ${named(before)} becomes ${named(after)}` : `Edit: ${named(before)} is deleted`;
}

// A function that takes the next characters of a list of texts and words; a word that is cut becomes text.
function cutter(nodes) {
  const left = [...nodes];
  return (count) => {
    const taken = [];
    while (count > 0 && left.length) {
      const node = left.shift(), text = node.textContent ?? node;
      if (text.length > count) left.unshift(text.slice(count));
      taken.push(text.length > count ? text.slice(0, count) : node);
      count -= text.length;
    }
    return taken;
  };
}
