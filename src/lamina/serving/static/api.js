// Requests to the server; every address is relative, so that the page works below any path.

export class ApiError extends Error {
  constructor(status, code, message, retryAfter) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
}

function headers(key) {
  const own = { "content-type": "application/json" };
  if (key) own.authorization = `Bearer ${key}`;
  return own;
}

async function failure(response) {
  const content = await response.json().catch(() => ({}));
  const error = content.error || {};
  const message = error.message || `The server returned status ${response.status}.`;
  return new ApiError(response.status, error.code, message, Number(response.headers.get("retry-after")) || null);
}

export async function models(key) {
  const response = await fetch("v1/models", { headers: headers(key) });
  if (!response.ok) throw await failure(response);
  return (await response.json()).models;
}

export async function settings() {
  const response = await fetch("frontend/settings");
  if (!response.ok) throw await failure(response);
  return response.json();
}

export async function translate(body, key, signal) {
  const response = await fetch("v1/translate", {
    method: "POST", headers: headers(key), body: JSON.stringify(body), signal,
  });
  if (!response.ok) throw await failure(response);
  return response.json();
}

// Server-sent events of a POST request: calls onEvent(name, data) for each.
export async function stream(body, key, signal, onEvent) {
  const response = await fetch("v1/translate/stream", {
    method: "POST", headers: headers(key), body: JSON.stringify(body), signal,
  });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)[1];
      onEvent(name, JSON.parse(/^data: (.*)$/m.exec(part)[1]));
    }
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(path, key, data, options = "") {
  const place = new URL(path, document.baseURI).href;
  const lines = [`curl ${options}${quoted(place)}`, "-H 'content-type: application/json'"];
  if (key) lines.push("-H \"authorization: Bearer $KEY\"");
  return [...lines, `-d ${data}`].join(" \\\n  ");
}

export const curl = (body, key) => command("v1/translate", key, quoted(JSON.stringify(body)));

export function curlOfFile(file, { texts, ...body }, key) {
  const fields = JSON.stringify(body).slice(1);
  return `jq -Rs ${quoted(`{"texts": [.], ${fields}`)} ${quoted(file)} | ${command("v1/translate/stream", key, "@-", "-N ")}`;
}
