// The page /docs: the operations of openapi.json, by tag. A schema is shown as its JSON, when it is opened.

import { h, replace } from "./dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

/** Return a part that is built when it is opened. */
function part(title, build) {
  const node = h("details", {}, h("summary", {}, title));
  node.addEventListener("toggle", () => node.childElementCount === 1 && node.append(...build()), { once: true });
  return node;
}

function schema(title, value) {
  return part(title, () => [h("pre", {}, JSON.stringify(value, null, 2))]);
}

function contents(title, content) {
  return Object.entries(content || {}).map(([media, { schema: shape }]) => schema(`${title} ${media}`, shape));
}

function operation(method, path, found) {
  const title = [h("code", {}, method.toUpperCase()), " ", h("code", {}, path), " ", found.summary];
  return part(title, () => [
    ...(found.parameters || []).map((each) => schema(`${each.in}: ${each.name}${each.required ? "" : " (optional)"}`, each.schema)),
    ...contents("body:", found.requestBody?.content),
    ...Object.entries(found.responses).flatMap(([status, answer]) => {
      const shown = contents(`${status} ${answer.description}:`, answer.content);
      return shown.length ? shown : [h("p", {}, `${status} ${answer.description}`)];
    }),
  ]);
}

const main = document.getElementById("main");
try {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`openapi.json: status ${answer.status}`);
  const found = await answer.json();
  const all = Object.entries(found.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => [method, path, item[method]]),
  );
  const sections = found.tags.map(({ name, description }) => {
    const own = all.filter(([, , each]) => each.tags.includes(name));
    return own.length ? [h("h2", {}, name), h("p", {}, description), own.map((each) => operation(...each))] : [];
  });
  const about = h("p", {}, found.info.description, " ", h("a", { href: "openapi.json" }, "openapi.json"));
  replace(main, h("h1", {}, `${found.info.title} ${found.info.version}`), about, sections);
} catch (error) {
  replace(main, h("p", { role: "alert" }, `The document cannot be shown: ${error.message}`));
}
