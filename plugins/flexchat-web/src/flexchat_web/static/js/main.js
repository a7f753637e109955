// Where the page begins: navigation, theme, and the pages by name.

import { h, icon, keyed } from "./dom.js";
import { badge } from "./elements.js";
import { toast } from "./dialog.js";
import { themeSwitch } from "./theme.js";
import { go, setTitle, start } from "./router.js";
import { uiConfig } from "./api.js";

const PAGES = [
  ["chat", "Chat", () => import("./pages/chat.js")],
  ["tools", "Tools", () => import("./pages/tools.js")],
  ["test", "Test", () => import("./pages/test.js")],
  ["validation", "Validation", () => import("./pages/validation.js")],
  ["config", "Config", () => import("./pages/config.js")],
  ["explain", "Explain", () => import("./pages/explain.js")],
];

function navigate(current) {
  keyed(
    document.getElementById("navigation"),
    PAGES,
    ([name]) => name,
    ([name, label]) => link(name, label, name === current),
    (node, [name]) => (name === current ? node.setAttribute("aria-current", "page") : node.removeAttribute("aria-current")),
  );
}

function link(name, label, here) {
  return h("a", { href: `#/${name}`, class: "nav-link", "aria-current": here && "page" }, icon(name), h("span", {}, label));
}

async function tellServer() {
  const server = await uiConfig();
  if (server.title) {
    document.getElementById("brand").textContent = server.title;
    setTitle(server.title);
  }
  if (server.config_problem) {
    toast("The configuration's file has errors; what was read before still answers.", { kind: "warn", seconds: 20, action: ["Show", () => go("config")] });
  }
  const place = document.getElementById("sidebar-end");
  place.prepend(
    h("p", { class: "server-facts" }, h("span", { title: server.config?.name }, server.config?.name || "demo"), server.read_only && badge("read-only", "", "lock")),
  );
}

navigate("chat");
document.getElementById("sidebar-end").append(themeSwitch());
document.querySelector(".skip-link").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the page's address
  document.getElementById("main").focus();
});
tellServer().catch(() => {});
start(document.getElementById("main"), Object.fromEntries(PAGES.map(([name, , load]) => [name, load])), navigate);
