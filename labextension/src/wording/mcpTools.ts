import type { CallPart } from '../api/protocol';

/** A tool of an MCP server, by its name here: `mcp__server__tool`. */
export interface IMcpTool {
  server: string;
  tool: string;
}

/** The server and name of an MCP tool; null for a built-in tool. */
export function mcpTool(name: string): IMcpTool | null {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  return server && tool ? { server, tool } : null;
}

/** The input of a call to a built-in tool; empty for MCP tools, whose fields have other meanings. */
export function ownInput({ toolName, input }: CallPart): object {
  return mcpTool(toolName) ? {} : ((input as object | undefined) ?? {});
}
