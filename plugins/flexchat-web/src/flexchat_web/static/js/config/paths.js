// Places in a configuration, and what differs between two values.
//   parsePath('llms."my model".retries') -> ["llms", "my model", "retries"]     at(data, path)     startsWith(path, prefix)
//   differences(before, after, path) -> changes for api/config/edit      same(a, b)     pick(object, keys)

const STEP = /\.?(?:\[(\d+)\]|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^.[\]]+))/gy;

/** Read a path as the server writes it. */
export function parsePath(text) {
  const steps = [];
  for (const [, index, double, single, bare] of (text || "").matchAll(STEP)) {
    steps.push(index !== undefined ? Number(index) : (double ?? single ?? bare));
  }
  return steps;
}

/** Return what stands at a place; undefined if nothing does. */
export function at(data, path) {
  return path.reduce((part, key) => (part === null || part === undefined ? undefined : part[key]), data);
}

/** Return whether a place is another one or lies in it. */
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

/** Return the changes that make one value of another: as few and as deep as can be, so that comments stay. */
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

/** A list's entry that is still empty becomes an empty text: JSON knows no undefined. */
function cleaned(value) {
  if (Array.isArray(value)) return value.map((item) => (item === undefined ? "" : cleaned(item)));
  return isTable(value) ? Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) => [key, cleaned(item)])) : value;
}
