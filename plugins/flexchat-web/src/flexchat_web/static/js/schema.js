// Reading a JSON Schema for the form: references, types, and errors of a value. The server validates fully;
// this finds early what can be corrected in a field.

/** Return a schema with its $ref resolved and its allOf merged. */
export function resolved(schema, root, depth = 0) {
  if (schema === true || schema === undefined || schema === null) return {};
  if (schema === false || depth > 20) return { not: {} };
  let found = schema;
  if (typeof found.$ref === "string") {
    const { $ref, ...rest } = found;
    found = { ...resolved(pointed(root, $ref), root, depth + 1), ...rest };
  }
  if (found.allOf) {
    const { allOf, ...rest } = found;
    found = allOf.map((part) => resolved(part, root, depth + 1)).reduce(merged, rest);
  }
  return found;
}

/** Return a schema whose variants are all constants as one with an enum, and with their titles. */
export function asChoices(schema, root) {
  const { anyOf, oneOf, ...rest } = schema;
  const parts = (anyOf || oneOf)?.map((part) => resolved(part, root));
  if (schema.enum || !parts?.length || !parts.every((part) => "const" in part)) return schema;
  return { ...rest, enum: parts.map((part) => part.const), titles: parts.map((part) => part.title) };
}

function pointed(root, reference) {
  if (!reference.startsWith("#")) return {};
  return reference
    .slice(1)
    .split("/")
    .slice(1)
    .reduce((part, key) => part?.[decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

function merged(one, other) {
  return {
    ...other,
    ...one,
    properties: one.properties || other.properties ? { ...other.properties, ...one.properties } : undefined,
    required: [...(one.required || []), ...(other.required || [])],
  };
}

/** Return the types a schema allows, but "null"; guessed from its keywords if it names none. */
export function typesOf(schema) {
  const named = [schema.type ?? []].flat();
  const types = named.filter((type) => type !== "null");
  if (types.length || named.length) return types.length ? types : ["null"];
  if (schema.properties || schema.additionalProperties) return ["object"];
  if (schema.items || schema.prefixItems) return ["array"];
  if (schema.pattern || schema.minLength || schema.maxLength || schema.format) return ["string"];
  if (schema.minimum !== undefined || schema.maximum !== undefined) return ["number"];
  return [];
}

/** Return the initial value of a new entry of this schema. */
export function emptyOf(schema) {
  if (schema.default !== undefined) return schema.default;
  const type = typesOf(schema)[0];
  return type === "object" ? {} : type === "array" ? [] : undefined;
}

/** Return the error of a value itself (not of its parts), or "". */
export function flaw(value, schema, required) {
  if (value instanceof Error) return `is not JSON: ${value.message}`;
  if (value === undefined) return required ? "is required" : "";
  if (schema.enum && !schema.enum.some((option) => JSON.stringify(option) === JSON.stringify(value))) {
    return `must be one of: ${schema.enum.join(", ")}`;
  }
  const types = typesOf(schema);
  if (types.length && !types.some((type) => isOf(value, type))) {
    return `must be ${types.map((type) => NAMES[type] || type).join(" or ")}`;
  }
  if (typeof value === "string") return textFlaw(value, schema);
  if (typeof value === "number") return numberFlaw(value, schema);
  if (Array.isArray(value)) {
    if (value.length < schema.minItems) return `needs at least ${schema.minItems} entries`;
    if (value.length > schema.maxItems) return `takes at most ${schema.maxItems} entries`;
  }
  return "";
}

const NAMES = { string: "a text", number: "a number", integer: "a whole number", boolean: "yes or no", array: "a list", object: "an object", null: "null" };

function isOf(value, type) {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return value !== null && typeof value === "object" && !Array.isArray(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function textFlaw(value, schema) {
  const length = [...value].length;
  if (length < schema.minLength) return `must have at least ${schema.minLength} characters`;
  if (length > schema.maxLength) return `must have at most ${schema.maxLength} characters, has ${length}`;
  if (schema.pattern) {
    try {
      if (!new RegExp(schema.pattern, "u").test(value)) return `must match ${schema.pattern}`;
    } catch {
      // A pattern that only the server supports.
    }
  }
  return "";
}

function numberFlaw(value, schema) {
  if (value < schema.minimum) return `must be at least ${schema.minimum}`;
  if (value > schema.maximum) return `must be at most ${schema.maximum}`;
  if (value <= schema.exclusiveMinimum) return `must be more than ${schema.exclusiveMinimum}`;
  if (value >= schema.exclusiveMaximum) return `must be less than ${schema.exclusiveMaximum}`;
  return "";
}

/** Format a path in the server's notation: "responses[0].match". */
export function pathText(path) {
  return path.reduce((text, key) => (typeof key === "number" ? `${text}[${key}]` : text ? `${text}.${key}` : String(key)), "");
}

/** Return the label of a field. */
export function labelOf(path, schema) {
  const last = path.at(-1);
  return schema.title || (typeof last === "number" ? `${labelOf(path.slice(0, -1), {})} ${last + 1}` : String(last ?? "value"));
}
