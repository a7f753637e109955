// The number of problems at a path, as a badge.

import { badge } from "../elements.js";
import { startsWith } from "./paths.js";

/** Return badges for the problems and notes at paths. */
export function problemMarks(draft, ...paths) {
  const at = (list) => list.filter((one) => paths.some((path) => startsWith(one.place, path))).length;
  const errors = at(draft.errors);
  const notes = at(draft.warnings);
  return [
    errors > 0 && badge(errors === 1 ? "1 problem" : `${errors} problems`, "bad", "failed"),
    notes > 0 && badge(notes === 1 ? "1 note" : `${notes} notes`, "warn", "info"),
  ].filter(Boolean);
}

/** Return the messages of problems at a path that no field can show. */
export function sentencesAt(draft, path) {
  return draft.errors.filter((one) => startsWith(one.place, path) && one.place.length === path.length).map((one) => one.text);
}
