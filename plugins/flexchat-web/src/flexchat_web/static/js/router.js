// Pages by the address's hash: #/tools, #/chat/ID, #/explain?prompt=….
//   A page is a module in pages/ that exports
//     title: string
//     async mount(root, { rest, query }) -> undefined, or { unmount(), canLeave() -> bool or a promise of one }
//   rest: what follows the page's name, split at "/"; query: URLSearchParams. root is empty and in the document.
//   go("chat", id) changes the address; go("explain", "", { prompt }) with a query.
// A page that is shown again with another rest is asked through its optional update({ rest, query }) -> true: "done",
// instead of being built again.

import { ApiError } from "./api.js";
import { errorCard } from "./elements.js";
import { replace } from "./dom.js";

let pages = {};
let main;
let shown = null; // { name, hash, page, handle }
let title = "FlexChat";

/** Show the page the address names, from now on. loaders: name → () => import(…); the first is the usual one. */
export function start(element, loaders, onShow) {
  main = element;
  pages = loaders;
  const follow = () => show(onShow).catch((error) => broken(error));
  addEventListener("hashchange", follow);
  addEventListener("beforeunload", (event) => {
    if (shown?.handle?.unsaved?.()) event.preventDefault();
  });
  return show(onShow).catch((error) => broken(error));
}

/** Change the address. */
export function go(name, rest = "", query = {}) {
  const wanted = new URLSearchParams(query).toString();
  location.hash = `#/${name}${rest ? `/${[rest].flat().map(encodeURIComponent).join("/")}` : ""}${wanted ? `?${wanted}` : ""}`;
}

/** Change the address without building the page again. */
export function rename(name, rest = "") {
  const hash = `#/${name}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
  history.replaceState(null, "", hash);
  if (shown) shown.hash = hash;
}

/** Name the server in the window's title. */
export function setTitle(name) {
  title = name;
}

async function show(onShow) {
  if (!location.hash.startsWith("#/") && location.hash) return; // a link within the page
  const [path, query] = location.hash.slice(2).split("?");
  const [wanted, ...rest] = path.split("/").map(decoded);
  const name = Object.hasOwn(pages, wanted) ? wanted : Object.keys(pages)[0];
  const place = { rest: name === wanted ? rest : [], query: new URLSearchParams(query) };
  if (shown?.hash === location.hash && shown.name === name) return;
  const previous = shown;
  if (previous?.name === name && previous.handle?.update?.(place)) {
    shown = { ...previous, hash: location.hash };
    return;
  }
  if (previous?.handle?.canLeave && !(await previous.handle.canLeave())) {
    history.replaceState(null, "", previous.hash);
    return;
  }
  const now = { name, hash: location.hash, handle: null };
  shown = now;
  const page = await pages[name]();
  if (shown !== now) return;
  previous?.handle?.unmount?.();
  document.title = `${page.title} · ${title}`;
  onShow?.(name);
  const root = document.createElement("div");
  root.className = `page page-${name}`;
  replace(main, root);
  if (previous) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  const handle = (await page.mount(root, place)) || null;
  // Another page may have been asked for meanwhile.
  if (shown === now) now.handle = handle;
  else handle?.unmount?.();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function broken(error) {
  if (!(error instanceof ApiError)) console.error(error);
  const wrapped = document.createElement("div");
  wrapped.className = "page";
  wrapped.append(errorCard(error, { retry: () => location.reload() }));
  replace(main, wrapped);
}
