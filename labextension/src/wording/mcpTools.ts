import type { CallPart } from '../api/protocol';

/** A tool of an MCP server, by its name here: `mcp__server__tool`. */
export interface IMcpTool {
  server: string;
  tool: string;
}

/** Whose tool it is; null for one of the assistant's own. */
export function mcpTool(name: string): IMcpTool | null {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  return server && tool ? { server, tool } : null;
}

/** The input of a call as far as its fields are those of our own tools: a server's mean something else. */
export function ownInput({ toolName, input }: CallPart): object {
  return mcpTool(toolName) ? {} : ((input as object | undefined) ?? {});
}
