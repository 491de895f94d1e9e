// The TypeScript SDK as an application uses it: discovery, registration, code with PKCE, tool calls, refresh.
// Arguments: the MCP URL, then the command that approves an authorization URL and prints where the app is answered.
// Prints one JSON object; ends with status 1 at the first thing that is not as it has to be.
import { execFileSync } from "node:child_process";
import assert from "node:assert/strict";
import { auth } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [serverUrl, ...approve] = process.argv.slice(2);
const redirectUrl = "http://127.0.0.1:49153/callback";

// An OAuthClientProvider that keeps everything in memory.
class Wallet {
  answer = null;
  sent = null;
  kept = {};
  redirectUrl = redirectUrl;
  clientMetadata = {
    client_name: "TypeScript SDK",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    token_endpoint_auth_method: "none",
  };
  state() { return (this.sent = crypto.randomUUID()); }
  clientInformation() { return this.kept.client; }
  saveClientInformation(client) { this.kept.client = client; }
  tokens() { return this.kept.tokens; }
  saveTokens(tokens) { this.kept.tokens = tokens; }
  codeVerifier() { return this.kept.verifier; }
  saveCodeVerifier(verifier) { this.kept.verifier = verifier; }
  redirectToAuthorization(url) {
    const [program, ...rest] = approve;
    this.answer = new URL(execFileSync(program, [...rest, url.href, "--print"], { encoding: "utf8" }).trim());
  }
}

async function session(wallet, work) {
  const client = new Client({ name: "conformance", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(serverUrl), { authProvider: wallet }));
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

const wallet = new Wallet();
assert.equal(await auth(wallet, { serverUrl }), "REDIRECT");
assert.equal(wallet.answer.searchParams.get("state"), wallet.sent);
const authorizationCode = wallet.answer.searchParams.get("code");
assert.equal(await auth(wallet, { serverUrl, authorizationCode }), "AUTHORIZED");

const path = "notes/from-the-typescript-sdk";
const body = "# From the TypeScript SDK\n\nHerons nest early.\n";
const tools = await session(wallet, async (client) => {
  const listed = (await client.listTools()).tools.map((tool) => tool.name);
  const written = await client.callTool({ name: "memory_write", arguments: { path, body } });
  assert.ok(!written.isError, JSON.stringify(written));
  return listed;
});

const before = { ...wallet.kept.tokens };
assert.ok(before.refresh_token, "no refresh token");
assert.equal(await auth(wallet, { serverUrl }), "AUTHORIZED");
assert.notEqual(wallet.kept.tokens.access_token, before.access_token);
assert.notEqual(wallet.kept.tokens.refresh_token, before.refresh_token);
const read = await session(wallet, (client) => client.callTool({ name: "memory_read", arguments: { path } }));
assert.equal(read.structuredContent.page.body, body);

console.log(JSON.stringify({ passed: true, scope: wallet.kept.tokens.scope, tools }));
