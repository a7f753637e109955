// Display of validation results. status: a model's record from the server.
//   verdictBadge(status)      "validated", "not validated", "undecided", "not tested", as a badge
//   modelMark(model)          { icons, text, kind, plain } of the seed's mark: wrench and tick, wrench and warning, or null
//   intervalBar(status)       the rate, its 95 % interval and the 80 % line, as a picture with a sentence
//   sentence(status)          the same as text      range(status)  only the interval
//   notCounted(errors)        a note on the tests that ended in an error of the service

import { h, icon, svg } from "../../js/dom.js";
import { badge } from "../../js/elements.js";

const LINE = 0.8;

const VERDICTS = {
  validated: ["validated", "ok", "ok"],
  not_validated: ["not validated", "bad", "failed"],
  undecided: ["undecided", "warn", "warning"],
};

/** Return the verdict as a badge, without its colour where it rests on stale results. */
export function verdictBadge(status) {
  const [text, kind, picture] = (status?.tested ?? status?.tests > 0) ? VERDICTS[status.verdict] || VERDICTS.undecided : ["not tested", "", "info"];
  return badge(text, status?.stale ? "" : kind, picture);
}

/** Return a note on results of another model, other tools or another package; null if there are none. */
export function staleBadge(status) {
  return status?.stale ? badge("stale", "warn", "history", { title: (status.stale_reasons || []).join(" ") || null }) : null;
}

/** Return the content of a model's mark; null for a model that does not claim to call tools. */
export function modelMark({ capabilities = [], validation }) {
  if (validation?.validated) {
    return { icons: ["wrench", "check"], text: "validated", kind: "ok", plain: "✓ validated" };
  }
  if (!capabilities.includes("function-calling")) return null;
  const text = validation?.stale ? "claims tools, results are stale" : "claims tools, not validated";
  return { icons: ["wrench", "warning"], text, kind: "warn", plain: "⚠ not validated" };
}

/** Return a model's mark as a badge with a label. */
export function markBadge(model) {
  const mark = modelMark(model);
  if (!mark) return badge("does not call tools");
  return h("span", { class: ["badge", mark.kind] }, mark.icons.map((name) => icon(name)), mark.text);
}

/** Return a share in per cent. */
export function percent(share, whole = Math.round) {
  return share === null || share === undefined ? "–" : `${whole(share * 100)} %`;
}

/** Format an interval, rounded outwards: 79.6 % is not at the line. */
export function range({ low, high }) {
  return `${percent(low, Math.floor)} to ${percent(high, Math.ceil)}`;
}

/** Summarise the results in a sentence. */
export function sentence({ test_count: all, tests = all, success_count: good, successes = good, low, high, rate = tests ? successes / tests : null }) {
  if (!tests) return "Not tested yet.";
  return `${successes} of ${tests} passed (${percent(rate)}); with 95 % confidence the true rate is from ${range({ low, high })}. The line is at 80 %.`;
}

/** Return the rate as a dot, its interval as a bar, and the line. */
export function intervalBar(status, { label = "" } = {}) {
  const tests = status.tests ?? status.test_count ?? 0;
  const name = [label, sentence(status)].filter(Boolean).join(": ");
  const frame = { class: ["interval", status.verdict || "undecided"].join(" "), viewBox: "0 0 200 16", preserveAspectRatio: "none", role: "img", "aria-label": name };
  const at = (share) => 2 + share * 196;
  const parts = [svg("title", {}, name), svg("rect", { class: "interval-track", x: 2, y: 6, width: 196, height: 4, rx: 2 })];
  if (tests) {
    const rate = status.rate ?? (status.successes ?? status.success_count) / tests;
    parts.push(
      svg("rect", { class: "interval-range", x: at(status.low), y: 4, width: Math.max(2, at(status.high) - at(status.low)), height: 8, rx: 2 }),
      svg("rect", { class: "interval-rate", x: at(rate) - 1.5, y: 2, width: 3, height: 12, rx: 1 }),
    );
  }
  parts.push(svg("path", { class: "interval-line", d: `M${at(LINE)} 0V16` }));
  return svg("svg", frame, parts);
}

/** Return a note on tests that ended in errors of the service, which are no evidence about the model. */
export function notCounted(errors) {
  return `${errors} more ended in an error of the service, and ${errors === 1 ? "does" : "do"} not count.`;
}

/** Format the number of missing tests; "" if none. */
export function moreNeeded(status) {
  if (status?.verdict !== "undecided" || !(status.test_count ?? status.tests) || status.stale) return "";
  if (!status.more) return "far from decided";
  return status.more === 1 ? "1 more test needed" : `about ${status.more.toLocaleString()} more tests needed`;
}
