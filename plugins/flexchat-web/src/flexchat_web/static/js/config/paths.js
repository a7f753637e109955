// Paths in a configuration, and the differences between two values.
//   parsePath('llms."my model".retries') -> ["llms", "my model", "retries"]     at(data, path)     startsWith(path, prefix)
//   differences(before, after, path) -> changes for api/config/edit      same(a, b)     pick(object, keys)

const STEP = /\.?(?:\[(\d+)\]|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^.[\]]+))/gy;

/** Parse a path in the server's notation. */
export function parsePath(text) {
  const steps = [];
  for (const [, index, double, single, bare] of (text || "").matchAll(STEP)) {
    steps.push(index !== undefined ? Number(index) : (double ?? single ?? bare));
  }
  return steps;
}

/** Return the value at a path; undefined if there is none. */
export function at(data, path) {
  return path.reduce((part, key) => (part === null || part === undefined ? undefined : part[key]), data);
}

/** Return whether a path equals another one or lies below it. */
export function startsWith(path, prefix) {
  return prefix.every((key, index) => path[index] === key);
}

/** Return whether two values are the same JSON data; the order of keys does not count. */
export function same(a, b) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => same(a[key], b[key]));
}

/** Return an object with some of its keys. */
export function pick(object, keys) {
  if (!object || typeof object !== "object") return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => keys.includes(key)));
}

/** Return the fewest and deepest changes that turn one value into another, so that comments are preserved. */
export function differences(before, after, path) {
  if (same(before, after)) return [];
  if (after === undefined) return [{ path, remove: true }];
  if (!isTable(before) || !isTable(after)) {
    const both = Array.isArray(before) && Array.isArray(after) && before.length === after.length;
    return both ? after.flatMap((item, index) => differences(before[index], item, [...path, index])) : [{ path, value: cleaned(after) }];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => differences(before[key], after[key], [...path, key]));
}

function isTable(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** An empty entry of a list becomes an empty string: JSON has no undefined. */
function cleaned(value) {
  if (Array.isArray(value)) return value.map((item) => (item === undefined ? "" : cleaned(item)));
  return isTable(value) ? Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) => [key, cleaned(item)])) : value;
}
