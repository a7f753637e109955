// The entry point of the page: navigation, theme, and the pages by name.

import { waiting } from "./activity/waiting.js";
import { onReturn, reachable } from "./attention.js";
import { h, icon, keyed } from "./dom.js";
import { badge, button } from "./elements.js";
import { ICONS } from "./icons.js";
import { toast } from "./dialog.js";
import { signOut } from "./sign_in.js";
import { themeSwitch } from "./theme.js";
import { go, placeOf, setServer, start } from "./router.js";
import { get, uiConfig } from "./api.js";
import { showCount } from "./nav_count.js";
import { PLUGIN_PAGES } from "../plugins.js"; // written by the server

const LOOK_MS = 60_000; // interval between requests for items that need a person

const PAGES = [
  ["chat", "Chat", () => import("./pages/chat.js")],
  ["activity", "Activity", () => import("./pages/activity.js")],
  ["tools", "Tools", () => import("./pages/tools.js")],
  ["config", "Config", () => import("./pages/config.js")],
  ["explain", "Explain", () => import("./pages/explain.js")],
];

for (const { name, label, after, icon, script, styles } of PLUGIN_PAGES) {
  const before = PAGES.findIndex(([known]) => known === after);
  const page = [name, label, () => Promise.all([import(ofPlugin(script)), ...styles.map(style)]).then(([module]) => module), icon];
  PAGES.splice(before < 0 ? PAGES.length : before + 1, 0, page);
}

function ofPlugin(path) {
  return new URL(`../${path}`, import.meta.url).href;
}

/** Add a stylesheet of a plugin; resolves when it applies. A missing one does not keep a page from being shown. */
function style(path) {
  const href = ofPlugin(path);
  if ([...document.styleSheets].some((sheet) => sheet.href === href)) return undefined;
  return new Promise((done) => document.head.append(h("link", { rel: "stylesheet", href, onLoad: done, onError: done })));
}

function navigate(current) {
  keyed(
    document.getElementById("navigation"),
    PAGES,
    ([name]) => name,
    ([name, label, , picture]) => link(name, label, picture, name === current),
    (node, [name]) => {
      if (name === current) node.setAttribute("aria-current", "page");
      else node.removeAttribute("aria-current");
      node.setAttribute("href", name === "chat" && name !== current ? placeOf(name) : `#/${name}`); // back to the conversation
    },
  );
}

function loadWaiting() {
  if (document.hidden) return;
  waiting.look().catch(() => {}); // pages report errors
  for (const { name, count: path } of PLUGIN_PAGES) {
    if (path) get(path).then(({ count }) => showCount(name, count), () => {});
  }
}

function link(name, label, picture, here) {
  const shown = [picture, name, "document"].find((known) => Object.hasOwn(ICONS, known || "")); // a plugin's page may have no icon
  return h("a", { href: `#/${name}`, class: "nav-link", "aria-current": here && "page" }, icon(shown), h("span", {}, label));
}

async function showServerState() {
  const server = await uiConfig();
  if (server.title) {
    document.getElementById("brand").textContent = server.title;
    setServer(server.title);
  }
  if (server.config_problem) {
    toast("The configuration's file has errors; what was read before still answers.", { kind: "warn", seconds: 20, action: ["Show", () => go("config")] });
  }
  const place = document.getElementById("sidebar-end");
  place.prepend(
    h("p", { class: "server-facts" }, h("span", { title: server.config?.name }, server.config?.name || "demo"), server.read_only && badge("read-only", "", "lock")),
  );
  if (server.asks_for_token) {
    const leave = () => signOut().catch((error) => toast(error.message, { kind: "bad" }));
    place.append(button("Sign out", { icon: "leave", kind: "quiet small", class: "sign-out", onClick: leave }));
  }
}

navigate("chat");
document.getElementById("sidebar-end").append(themeSwitch());
document.querySelector(".skip-link").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the page's address
  document.getElementById("main").focus();
});
waiting.on((count) => showCount("activity", count));
onReturn(loadWaiting);
setInterval(loadWaiting, LOOK_MS);
loadWaiting();
showServerState().catch((error) => error.status === 0 && reachable().then(showServerState));
start(document.getElementById("main"), Object.fromEntries(PAGES.map(([name, , load]) => [name, load])), navigate);
