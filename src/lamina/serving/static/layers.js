// The layer panel: tables of what one word of the result reads, and from where.

import { mean, sourceWeights, strongest } from "./words.js";

function element(name, content, properties = {}) {
  const made = document.createElement(name);
  if (Array.isArray(content)) made.append(...content);
  else if (content !== undefined) made.textContent = content;
  return Object.assign(made, properties);
}

function cell(value, kind = "", most = 1) {
  const made = element("td", value < 0.005 ? "·" : value.toFixed(2), { className: kind });
  if (value < 0.005) made.setAttribute("aria-label", "0");
  made.style.setProperty("--weight", Math.max(0, Math.min(1, value / most)));
  return made;
}

function table(caption, columns, rows, build = cell) {
  const made = element("table", [element("caption", caption)]);
  if (columns.length) {
    const heads = columns.map((name) => element("th", name, { scope: "col" }));
    made.append(element("thead", [element("tr", [element("th", ""), ...heads])]));
  }
  const body = rows.map(([name, values]) =>
    element("tr", [element("th", name, { scope: "row" }), ...values.map((value) => build(value))]));
  made.append(element("tbody", body));
  return element("div", [made], { className: "scroll" });
}

function panel(title, parts, id) {
  return element("section", [element("h3", title), ...parts], { className: "panel", id });
}

const shown = (symbol) => symbol.replaceAll("▁", "␣").replace("</s>", "⟨end⟩");

function attention(sentence, word) {
  const names = sentence.source_words.map(({ text }) => text);
  const rows = sentence.attention_layers.map((matrix, layer) =>
    [`decoder ${layer + 1}`, sourceWeights(matrix, word.tokens, sentence.source_words)]);
  return panel("Attention", [table("Attention to each source word; the rest goes to the end symbol", names, rows)], "panel-attention");
}

function layerWeights(sentence, word) {
  const { layers, weights, words } = sentence.layer_weights;
  const [first, last] = word.tokens;
  let values = weights, caption = "Encoder layers that each decoder layer reads";
  if (words) {
    const rows = words.slice(first, last);
    values = weights.map((row, j) => row.map((_, l) => mean(rows.map((each) => each[j][l]))));
    caption = "Share of each encoder layer in the memory that this word reads";
  }
  const names = layers.map((name) => (name === "embedding" ? "emb" : name));
  const parts = [table(caption, names, values.map((row, j) => [`decoder ${j + 1}`, row]))];
  if (words) parts.push(table("Learned weights", names, weights.map((row, j) => [`decoder ${j + 1}`, row])));
  if (sentence.layer_weights.wiring) {
    const rows = sentence.layer_weights.wiring.map((row, layer) => [`layer ${layer + 1}`, row.map(Math.abs)]);
    parts.push(table("Absolute weights of the layers below, for each encoder layer (DLCL)", [], rows));
  }
  return panel("Encoder layers", parts, "panel-weights");
}

function gates(sentence, word, attended) {
  const [first, last] = word.tokens;
  const bar = (value) => cell(value, "bar-cell");
  const parts = [];
  const { decoder, encoder } = sentence.gates;
  if (decoder) {
    const rows = decoder.map((gate, layer) => [`layer ${layer + 1}`, [mean(gate.slice(first, last))]]);
    parts.push(table("Decoder", [], rows, bar));
  }
  const source = sentence.source_words[attended];
  if (encoder && source) {
    const rows = encoder.map((gate, layer) => [`layer ${layer + 1}`, [mean(gate.slice(...source.tokens))]]);
    parts.push(table(`Encoder, at “${source.text}”`, [], rows, bar));
  }
  const told = element("p", "1 = attention to the states, 0 = attention to the context.", { className: "about" });
  return panel("MSC gates", [told, element("div", parts, { className: "sides" })], "panel-gates");
}

// What each side of a head would predict alone, and the weight of each.
function sides(title, id, [one, other], told, { decoder, source, gate }, first) {
  const list = (caption, choices) => {
    const made = element("table", [element("caption", caption)]);
    const rows = choices.map(([symbol, value]) => element("tr", [
      element("th", shown(symbol), { className: "text", scope: "row" }), cell(value, "bar-cell"),
    ]));
    made.append(element("tbody", rows));
    return made;
  };
  const share = gate[first];
  return panel(title, [
    element("p", told(share.toFixed(2), (1 - share).toFixed(2)), { className: "about" }),
    element("div", [list(one, decoder[first]), list(other, source[first])], { className: "sides" }),
  ], id);
}

const surface = (sentence, word) => sides("SurfaceFusion: two distributions", "panel-surface",
  ["Decoder alone", "Source alone"],
  (own, rest) => `Weight of the decoder: ${own}; of the source: ${rest}.`, sentence.surface, word.tokens[0]);

const pointer = (sentence, word) => sides("Pointer: generated or copied", "panel-pointer",
  ["Generated", "Copied"],
  (own, rest) => `Probability of generating: ${own}; of copying from the source: ${rest}.`, sentence.pointer, word.tokens[0]);

// All panels for one word of a sentence that was requested with `details`.
export function draw(place, about, sentence, word, model) {
  const weights = sourceWeights(sentence.attention, word.tokens, sentence.source_words);
  const attended = strongest(weights);
  about.textContent = `“${word.text}” (${model}): probability ${
    Math.min(...sentence.probabilities.slice(...word.tokens)).toFixed(2)}.`;
  const panels = [attention(sentence, word)];
  if (sentence.layer_weights) panels.push(layerWeights(sentence, word));
  if (sentence.gates) panels.push(gates(sentence, word, attended));
  if (sentence.surface) panels.push(surface(sentence, word));
  if (sentence.pointer) panels.push(pointer(sentence, word));
  place.replaceChildren(...panels);
}
