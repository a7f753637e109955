// Descriptions of tools, by name; empty if the server does not list them.

import { get } from "../api.js";

export async function toolDescriptions() {
  try {
    return new Map((await get("api/tools/list")).tools.map((tool) => [tool.name, tool.description]));
  } catch {
    return new Map();
  }
}
