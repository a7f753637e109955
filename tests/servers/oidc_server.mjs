// A real authorization server, oidc-provider, on loopback: pages for a browser, and a way for tests to look and meddle.
//
// node oidc_server.mjs FOLDER '{"path": "/tenant"}': FOLDER has the node_modules. Writes its issuer, and ends with stdin.
// POST /test/set {...} sets what `state` says, POST /test/destroy {"token": ...} forgets an access token alone,
// POST /test/release answers what is held, GET /test/seen tells what was asked for at the token endpoint.

import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, words] = process.argv.slice(2);
const OAUTH = '/.well-known/oauth-authorization-server';
const OPENID = '/.well-known/openid-configuration';
const { path = '', served = [OAUTH + path, path + OPENID] } = JSON.parse(words ?? '{}');
const { Provider, errors } = await import(
  pathToFileURL(createRequire(`${folder}/package.json`).resolve('oidc-provider')).href
);

const state = {
  seconds: 3600, // how long an access token lives
  resources: [], // what tokens may be for
  document: null, // a client metadata document, and its address as client_id
  hold: '', // holds requests for tokens: 'before' they are worked on, or 'after'
  fail: 0, // the status of all answers to requests for tokens
};
const seen = { grants: [], errors: [], held: 0 };
let held = [];

const native = {
  application_type: 'native',
  grant_types: ['authorization_code', 'refresh_token'],
  redirect_uris: ['http://127.0.0.1/callback'],
  response_types: ['code'],
};
const scopes = ['openid', 'offline_access', 'tools:read', 'tools:write'];

function configured() {
  return {
    clients: [
      { client_id: 'resource', client_secret: 'resource-secret', grant_types: [], redirect_uris: [], response_types: [] },
      { client_id: 'by-hand', token_endpoint_auth_method: 'none', ...native },
      { client_id: 'with-secret', client_secret: 'the secret of a client', ...native },
    ],
    scopes,
    cookies: { keys: ['a key of the tests'] },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: async () => false,
    findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    interactions: { url: (ctx, interaction) => `${path}/interaction/${interaction.uid}` },
    ttl: {
      AccessToken: () => state.seconds,
      RefreshToken: 86400,
      AuthorizationCode: 60,
      Grant: 86400,
      Session: 86400,
      Interaction: 600,
      IdToken: 600,
    },
    fetch: async (url, options) =>
      state.document?.client_id === String(url) ? Response.json(state.document) : fetch(url, options),
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: async () => true,
        getResourceServerInfo: async (ctx, resource) => {
          if (!state.resources.includes(resource)) throw new errors.InvalidTarget();
          return { scope: 'tools:read tools:write', audience: resource, accessTokenFormat: 'opaque' };
        },
      },
    },
  };
}

async function interaction(request, response, provider) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session } = details;
  if (request.method === 'GET') {
    response.setHeader('content-type', 'text/html');
    return response.end(`<form method="post" action="${request.url}"><p>${prompt.name}</p></form>`);
  }
  const form = new URLSearchParams(await body(request));
  if (form.get('answer') === 'no') {
    const refusal = { error: 'access_denied', error_description: 'the person says no' };
    return provider.interactionFinished(request, response, refusal);
  }
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: form.get('who') } });
  }
  const grant = details.grantId
    ? await provider.Grant.find(details.grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  grant.addOIDCScope([...missingOIDCScope].join(' '));
  for (const [resource, wanted] of Object.entries(missingResourceScopes)) {
    grant.addResourceScope(resource, [...wanted].join(' '));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

async function test(request, response, provider) {
  const asked = JSON.parse((await body(request)) || '{}');
  switch (request.url) {
    case '/test/set':
      Object.assign(state, asked);
      break;
    case '/test/destroy':
      await (await provider.AccessToken.find(asked.token)).destroy();
      break;
    case '/test/release':
      state.hold = '';
      held.forEach((go) => go());
      held = [];
      break;
  }
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(seen));
}

async function body(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

async function waiting() {
  seen.held += 1;
  await new Promise((resolve) => held.push(resolve));
}

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(origin + path, configured());
  provider.use(async (ctx, next) => {
    const isToken = ctx.path.endsWith('/token') && ctx.method === 'POST';
    if (isToken && state.hold === 'before') {
      await waiting();
      if (ctx.req.socket.destroyed) return;
    }
    if (isToken && state.fail) {
      ctx.status = state.fail;
      ctx.body = 'down for maintenance';
      return;
    }
    await next();
    if (isToken && state.hold === 'after') await waiting();
  });
  const tell = (ctx, error) => {
    const { grant_type: grant, resource, code_verifier: verifier } = ctx.oidc?.params ?? {};
    const told = { grant, resource, client: ctx.oidc?.client?.clientId, has_verifier: Boolean(verifier) };
    if (error) seen.errors.push({ ...told, error: error.error, detail: error.error_detail ?? error.message });
    else seen.grants.push(told);
  };
  provider.on('grant.success', (ctx) => tell(ctx));
  provider.on('grant.error', (ctx, error) => tell(ctx, error));
  const app = provider.callback();

  server.on('request', async (request, response) => {
    try {
      if (request.url.startsWith('/test/')) return await test(request, response, provider);
      if (request.url.includes('/.well-known/')) {
        if (!served.includes(request.url)) {
          response.statusCode = 404;
          return response.end();
        }
        request.url = request.url.includes('openid') ? OPENID : OAUTH;
        request.baseUrl = path;
      } else if (path && request.url.startsWith(`${path}/`)) {
        if (request.url.startsWith(`${path}/interaction/`)) return await interaction(request, response, provider);
        request.originalUrl = request.url;
        request.url = request.url.slice(path.length);
        request.baseUrl = path;
      } else if (request.url.startsWith('/interaction/')) {
        return await interaction(request, response, provider);
      }
      return app(request, response);
    } catch (error) {
      response.statusCode = 500;
      return response.end(String(error));
    }
  });
  console.log(origin + path);
});
process.stdin.resume();
process.stdin.on('end', () => process.exit());
