// Applying a draft: the diff is shown first; changes by others are never overwritten silently.

import { h, announce } from "../dom.js";
import { ApiError, uiConfig } from "../api.js";
import { button, errorCard, busy } from "../elements.js";
import { openDialog, toast } from "../dialog.js";

const MEANWHILE = "urn:flexchat:problem:config-version";

/** Show the diff, and apply the draft once confirmed. */
export async function reviewAndApply(draft, opener) {
  let diff;
  try {
    await busy(opener, draft.look());
    if (draft.theirs || !draft.changed) return; // the page reports it
    diff = await busy(opener, draft.diff());
  } catch (error) {
    toast(error.message, { kind: "bad" });
    return;
  } finally {
    opener.disabled = !draft.changed || Boolean(draft.theirs) || draft.status !== "valid";
  }
  const trouble = h("div", { class: "stack tight" });
  const yes = button("Apply", { kind: "primary", onClick: () => go() });
  const dialog = openDialog({
    title: "Apply these changes?",
    content: h("div", { class: "stack" }, h("p", { class: "muted" }, `They are written into ${draft.name} and serve from then on. Turns under way end on the old configuration.`), diffView(diff), trouble),
    actions: [button("Cancel", { onClick: () => dialog.close() }), yes],
    wide: true,
  });
  yes.focus();

  async function go() {
    trouble.replaceChildren();
    try {
      await busy(yes, draft.apply());
      dialog.close();
      toast("Applied. The new configuration serves.", { kind: "ok" });
      announce("The configuration is applied.");
      uiConfig(true).catch(() => {});
    } catch (error) {
      if (error instanceof ApiError && error.problem.type === MEANWHILE) {
        dialog.close();
        draft.look().catch((problem) => toast(problem.message, { kind: "bad" }));
      } else trouble.append(errorCard(error, { title: "Not applied" }));
    }
  }
}

function diffView(diff) {
  const lines = diff.split("\n");
  const kindOf = (line) => (/^(---|\+\+\+)/.test(line) ? "head" : line.startsWith("@@") ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  if (!diff.trim()) return h("p", {}, "Only secrets differ; they are not shown.");
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "Difference" }, lines.map((line) => h("span", { class: ["diff-line", kindOf(line)] }, line || " ", "\n")));
}
