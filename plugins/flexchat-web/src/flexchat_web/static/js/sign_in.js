// Signing in with a token and out again. The session is in a cookie that scripts cannot read.

import { h } from "./dom.js";
import { del, post } from "./api.js";

// A link with a valid token was redirected to an address without it.
const refused = new URLSearchParams(location.search).has("token");
if (refused) history.replaceState(null, "", location.pathname + location.hash);

/** Return the form that asks for a token. */
export function signInForm() {
  const problem = h("p", { class: "field-problem", id: "token-problem", role: "alert" });
  const input = h("input", { class: "input", id: "token", name: "token", type: "password", required: true, autocomplete: "current-password", "aria-describedby": "token-problem" });
  const send = h("button", { type: "submit", class: "button primary" }, h("span", {}, "Sign in"));
  const tell = (text) => {
    problem.textContent = text;
    input.toggleAttribute("aria-invalid", Boolean(text));
  };
  if (refused) tell("The link's token is not one of the server's.");
  const form = h(
    "form",
    { class: "card sign-in" },
    h("h2", {}, "This server asks for a token"),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input, problem),
    h("div", {}, send),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    tell("");
    try {
      await post("api/session", { token: input.value });
      location.reload();
    } catch (error) {
      tell(error.message);
      send.disabled = false;
      input.select();
    }
  });
  return form;
}

/** Forget the token, and ask for one again. */
export async function signOut() {
  await del("api/session");
  sessionStorage.clear(); // unsent messages
  location.reload();
}
