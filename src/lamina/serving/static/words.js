// Words of a text: their positions, their differences, and what they attend to.

// Positions of parts in a text, in order; null for a part that is not found.
export function locate(text, parts) {
  let position = 0;
  return parts.map((part) => {
    const start = part ? text.indexOf(part, position) : -1;
    if (start < 0) return null;
    position = start + part.length;
    return [start, position];
  });
}

// Which elements of two lists are common to both, by the longest common subsequence.
export function common(one, other) {
  const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      table[i][j] = one[i] === other[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

export const split = (text) => text.match(/\s+|[\p{L}\p{N}\p{M}'’-]+|[^\s\p{L}\p{N}\p{M}]/gu) || [];

// What a correction changed: kept text and edits, in order.
export function edits(source, corrected) {
  const one = split(source), other = split(corrected);
  const found = [];
  let i = 0, j = 0;
  for (const [a, b] of [...common(one, other), [one.length, other.length]]) {
    const before = one.slice(i, a).join(""), after = other.slice(j, b).join("");
    if (before || after) found.push({ before, after });
    if (a < one.length) found.push({ kept: one[a] });
    i = a + 1;
    j = b + 1;
  }
  return found.reduce((joined, part) => { // join adjacent kept parts
    const last = joined.at(-1);
    if ("kept" in part && last && "kept" in last) last.kept += part.kept;
    else joined.push({ ...part });
    return joined;
  }, []);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

// Weights of source words for the tokens [first, last) of a target word: rows averaged, columns summed.
export function sourceWeights(matrix, [first, last], sourceWords) {
  const rows = matrix.slice(first, last);
  if (!rows.length) return sourceWords.map(() => 0);
  return sourceWords.map(({ tokens: [start, end] }) => sum(rows.map((row) => sum(row.slice(start, end)))) / rows.length);
}

export const mean = (values) => (values.length ? sum(values) / values.length : 0);
export const strongest = (weights) => weights.indexOf(Math.max(...weights));
