import { h } from "../dom.js";
export const title = "Chat";
export async function mount(root) {
  root.append(h("h1", {}, title));
}
