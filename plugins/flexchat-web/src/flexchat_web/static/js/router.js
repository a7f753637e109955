// Pages by the address's hash: #/tools, #/chat/ID, #/explain?prompt=….
//   A page is a module in pages/ that exports
//     title: string; setPlace("…") adds the current item to the window's title
//     async mount(root, { rest, query }) -> undefined, or { unmount(), canLeave() -> bool or a promise of one }
//   rest: the path after the page's name, split at "/"; query: URLSearchParams. root is empty, in the document, and
//   has the class "page": padding, and a gap between its children.
//   go("chat", id) changes the address; go("explain", "", { prompt }) with a query.
// If only the rest changes, the page's optional update({ rest, query }) is called; it returns true if it handled this
// and need not be rebuilt.

import { ApiError } from "./api.js";
import { closeDialogs } from "./dialog.js";
import { emptyState, errorCard } from "./elements.js";
import { h, replace } from "./dom.js";

let pages = {};
let main;
let shown = null; // { name, hash, page, handle }
let server = "FlexChat";
let itemTitle = ""; // the current item of the page
const places = new Map(); // page → address at which it was left

/** Start routing. loaders: name → () => import(…); the first is the default page. */
export function start(element, loaders, onShow) {
  main = element;
  pages = loaders;
  const follow = () => show(onShow).catch((error) => broken(error, again));
  const again = () => {
    shown = null;
    follow();
  };
  addEventListener("hashchange", follow);
  addEventListener("beforeunload", (event) => {
    if (shown?.handle?.unsaved?.()) event.preventDefault();
  });
  return follow();
}

/** Return the address at which a page was left. */
export function placeOf(name) {
  return places.get(name) || `#/${name}`;
}

/** Change the address. */
export function go(name, rest = "", query = {}) {
  const wanted = new URLSearchParams(query).toString();
  location.hash = `#/${name}${rest ? `/${[rest].flat().map(encodeURIComponent).join("/")}` : ""}${wanted ? `?${wanted}` : ""}`;
}

/** Change the address without rebuilding the page. */
export function rename(name, rest = "") {
  const hash = `#/${name}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
  history.replaceState(null, "", hash);
  if (shown) shown.hash = hash;
}

/** Set the server's name in the window's title. */
export function setServer(name) {
  server = name;
  setPlace(itemTitle);
}

/** Set the current item in the window's title. */
export function setPlace(name) {
  itemTitle = name;
  document.title = name ? `${name} · ${server}` : server;
}

async function show(onShow) {
  if (!location.hash.startsWith("#/") && location.hash) return; // a link within the page
  const [path, query] = location.hash.slice(2).split("?");
  const [wanted, ...rest] = path.split("/").map(decoded);
  const name = wanted || Object.keys(pages)[0];
  const place = { rest, query: new URLSearchParams(query) };
  if (shown?.hash === location.hash && shown.name === name) return;
  const previous = shown;
  closeDialogs();
  if (previous?.name === name && previous.handle?.update?.(place)) {
    shown = { ...previous, hash: location.hash };
    return;
  }
  if (previous?.handle?.canLeave && !(await previous.handle.canLeave())) {
    history.replaceState(null, "", previous.hash);
    return;
  }
  closeDialogs();
  const now = { name, hash: location.hash, handle: null };
  shown = now;
  if (previous) places.set(previous.name, previous.hash);
  onShow?.(name);
  const page = Object.hasOwn(pages, name) ? await loaded(pages[name]) : nowhere(name);
  if (shown !== now) return;
  previous?.handle?.unmount?.();
  setPlace(page.title);
  const root = document.createElement("div");
  root.className = `page page-${Object.hasOwn(pages, name) ? name : "nowhere"}`;
  replace(main, root);
  if (previous) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  const handle = (await page.mount(root, place)) || null;
  // The user may have navigated to another page meanwhile.
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

function nowhere(name) {
  return {
    title: "No such page",
    mount(root) {
      const lead = h("p", {}, "There is no page ", h("code", {}, name.slice(0, 100)), " here.");
      root.append(emptyState("No such page", lead, h("p", {}, h("a", { href: `#/${Object.keys(pages)[0]}` }, "To the chat"))));
    },
  };
}

function broken(error, again) {
  if (!(error instanceof ApiError)) console.error(error);
  const card = errorCard(error, { retry: error.part ? () => location.reload() : again, reading: true });
  replace(main, h("div", { class: "page" }, card));
}

async function loaded(load) {
  try {
    return await load();
  } catch (error) {
    if (error instanceof SyntaxError) throw error;
    // Browsers do not retry a module that failed to load.
    throw Object.assign(new ApiError(0, { title: "No connection", detail: "The server cannot be reached. Is it still running?" }), { part: true });
  }
}
