// The API's description, read from openapi.json.

document.documentElement.dataset.theme =
  localStorage.getItem("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

const make = (name, text, className = "") => Object.assign(document.createElement(name), { textContent: text, className });

// Text with `code` in it.
function prose(name, text, className = "") {
  const made = make(name, "", className);
  made.append(...text.split("`").map((part, index) => (index % 2 ? make("code", part) : part)));
  return made;
}

function resolve(schema, root) {
  const path = schema?.$ref?.match(/^#\/components\/schemas\/(.+)$/);
  return path ? root.components.schemas[path[1]] : schema;
}

function fields(schema, root) {
  const resolved = resolve(schema, root);
  if (!resolved?.properties) return [];
  const table = document.createElement("table");
  for (const [name, field] of Object.entries(resolved.properties)) {
    const row = document.createElement("tr");
    const kinds = (field.anyOf || [field]).map((each) => each.enum?.join(" | ") || each.type || each.$ref?.split("/").pop() || "any");
    const heading = make("th", name);
    heading.scope = "row";
    const needed = resolved.required?.includes(name) ? "required" : field.default !== undefined ? `default ${JSON.stringify(field.default)}` : "";
    row.append(heading, make("td", kinds.join(" or "), "text"), make("td", needed, "text"), prose("td", field.description || "", "text"));
    table.append(row);
  }
  const scroll = make("div", "", "scroll");
  scroll.append(table);
  return [scroll];
}

const root = await (await fetch("openapi.json")).json();
const operations = [];
for (const [path, methods] of Object.entries(root.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const box = make("section", "", "operation");
    const title = make("h2", "");
    title.append(make("span", method.toUpperCase(), "method"), path);
    box.append(title, make("p", operation.summary || ""), prose("p", operation.description || "", "about"));
    const content = operation.requestBody?.content?.["application/json"];
    if (content) {
      box.append(make("h3", "Body"), ...fields(content.schema, root));
      if (content.example) {
        const place = new URL(`.${path}`, document.baseURI).href;
        box.append(make("pre", `curl '${place}' -d '${JSON.stringify(content.example)}'`));
      }
    }
    const answer = operation.responses?.["200"]?.content?.["application/json"]?.schema;
    const described = fields(answer, root);
    if (described.length) box.append(make("h3", "Response"), ...described);
    const statuses = Object.keys(operation.responses || {}).filter((status) => status !== "200");
    if (statuses.length) box.append(make("p", `Errors: ${statuses.join(", ")}`, "about"));
    operations.push(box);
  }
}
document.getElementById("operations").replaceChildren(...operations);
