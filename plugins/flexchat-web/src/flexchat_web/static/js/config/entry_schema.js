// The schema of one entry as it applies: which keys a table has depends on its provider or type.
//   const schema = effective(root, { $ref: "#/$defs/LLMEntry" }, value)      orderOf(schema, first)

import { resolved } from "../schema.js";
import { same } from "./paths.js";

/** Return a schema without conditions: each "if" is replaced by the branch that applies to the value. */
export function effective(root, schema, value) {
  const { allOf = [], if: condition, then, else: otherwise, ...plain } = followed(root, schema);
  const parts = [...allOf, ...(condition ? [{ if: condition, then, else: otherwise }] : [])];
  let found = { ...plain, properties: { ...plain.properties } };
  for (const part of parts) {
    if (!part.if) {
      found = joined(found, resolved(part, root));
      continue;
    }
    const chosen = holds(part.if, value) ? part.then : part.else;
    if (chosen && chosen !== true) found = joined(found, chosen);
  }
  for (const [name, inner] of Object.entries(found.properties)) {
    const given = value?.[name];
    if (given && typeof given === "object" && !Array.isArray(given) && inner.$ref) {
      found.properties[name] = { ...effective(root, inner, given), description: inner.description };
    } else if (inner.$ref && followed(root, inner).allOf?.some((part) => part.if)) {
      found.properties[name] = { ...effective(root, inner, {}), description: inner.description };
    }
  }
  return found;
}

/** Return the values that determine the keys: the form is rebuilt when they change. */
export function kindOf(value) {
  return JSON.stringify([value?.provider, value?.type, value?.implementation?.type]);
}

function followed(root, schema) {
  let found = schema;
  for (let depth = 0; found?.$ref && depth < 20; depth += 1) {
    const { $ref, ...rest } = found;
    found = { ...$ref.slice(2).split("/").reduce((part, key) => part?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root), ...rest };
  }
  return found || {};
}

function joined(one, other) {
  return {
    ...other,
    ...one,
    properties: { ...one.properties, ...Object.fromEntries(Object.entries(other.properties || {}).map(([name, part]) => [name, { ...part, ...one.properties[name] }])) },
    required: [...new Set([...(one.required || []), ...(other.required || [])])],
  };
}

/** Whether a condition of these schemas holds; supports required keys and constants. */
function holds(condition, value) {
  const there = (condition.required || []).every((key) => value?.[key] !== undefined);
  return there && Object.entries(condition.properties || {}).every(([key, part]) => value?.[key] === undefined || !("const" in part) || same(value[key], part.const));
}
