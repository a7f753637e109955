// The title of a conversation from its first message.

const JSON_BEGINS = /^\s*(?:\[\s*)?\{\s*"[^"\n]*"\s*:/;

/** The server's rule for titles: no Markdown or JSON syntax. */
export function titleOf(text) {
  let plain = text
    .slice(0, 1000)
    .replace(/^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|```\w*)/gm, "")
    .replace(/!?\[([^[\]\n]{1,200})\]\([^()\s]{0,200}\)/g, "$1")
    .replace(/(\*\*|~~|`+)(?=\S)([^*~`\n]{1,200})(?<=\S)\1/g, "$2")
    .replace(/(?<![\w*])\*(?=\S)([^*\n]{1,200})(?<=\S)\*(?![\w*])/g, "$1");
  if (JSON_BEGINS.test(plain)) plain = plain.replace(/"\s*:\s*/g, ": ").replace(/,(?=["{[])/g, ", ").replace(/[{}[\]"]/g, "");
  const line = (plain.trim() ? plain : text).trim().split(/\s+/).join(" ");
  return line.length <= 80 ? line : `${line.slice(0, 79).trimEnd()}…`;
}
