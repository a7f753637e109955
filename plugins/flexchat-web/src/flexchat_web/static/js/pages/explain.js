import { h } from "../dom.js";
export const title = "Explain";
export async function mount(root) {
  root.append(h("h1", {}, title));
}
