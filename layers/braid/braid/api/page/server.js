// Asks the server that sent this page, and says in words why it did not answer.
import { access } from "./address.js";

const ROOT = new URL("..", import.meta.url);
const TIMEOUT_MS = 35_000;
const MOST_TRIES = 6; // of a request that is refused because others are answered: a tenant may have one place
const MOST_WAIT_S = 4;

/** An answer that is none: what happened, what may help, and which fields are wrong. */
export class Refusal extends Error {
  constructor(title, { detail = "", fields = [], status = 0, again = false } = {}) {
    super(title);
    Object.assign(this, { title, detail, fields, status, again });
  }
}

export const get = (path, signal, as = access()) => send("GET", path, undefined, signal, as);
export const post = (path, body, signal) => send("POST", path, body, signal, access());

const PARTS_OF_PATHS = new Set([".", ".."]); // browsers resolve these away, however they are encoded

/** What stands in relation to an entity, along some types or any; of an id that no address can have, by a graph query. */
export function related(id, { types = [], limit, asOf = null }, signal) {
  if (PARTS_OF_PATHS.has(id)) {
    return post("graph/query", { start: { ids: [id] }, steps: [{ direction: "both", types }], limit, fan_out: 200, as_of: asOf }, signal);
  }
  const asked = new URLSearchParams([["limit", limit], ...(asOf ? [["as_of", asOf]] : []), ...types.map((type) => ["types", type])]);
  return get(`entities/${encodeURIComponent(id)}/related?${asked}`, signal);
}

async function send(method, path, body, signal, { tenant }) {
  const { token } = access();
  if (!token) throw new Refusal("A token is needed", { detail: HOW_TO_GET_ONE, status: 401 });
  const headers = { Authorization: `Bearer ${token}`, Accept: "application/json" };
  if (tenant) headers["Braid-Tenant"] = tenant;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const slow = AbortSignal.timeout(TIMEOUT_MS);
  const ends = signal ? AbortSignal.any([signal, slow]) : slow;
  const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: ends, cache: "no-store" };
  try {
    for (let tries = 1; ; tries += 1) {
      const response = await fetch(new URL(path, ROOT), request);
      const answered = await read(response);
      if (response.ok) return answered;
      const again = response.status === 429 ? Number(response.headers.get("Retry-After")) : 0;
      if (!again || tries === MOST_TRIES) throw refused(response.status, answered);
      await wait(Math.min(again, MOST_WAIT_S) * (0.5 + Math.random()), ends);
    }
  } catch (error) {
    if (error instanceof Refusal || error.name === "AbortError") throw error;
    if (error.name === "TimeoutError") {
      throw new Refusal("No answer in 35 seconds", { detail: "The server may be busy, or a store may hang.", again: true });
    }
    throw new Refusal("The server does not answer", {
      detail: "It may have been stopped; is braid serve still running?",
      again: true,
    });
  }
}

/** Wait for some seconds, or fail as a request does that is given up. */
const wait = (seconds, ends) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, seconds * 1000);
  ends.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(ends.reason);
  }, { once: true });
  ends.throwIfAborted();
});

async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "TimeoutError" || error.name === "AbortError") throw error;
    throw new Refusal("The server sent something else than an answer", {
      detail: `Status ${response.status}.`,
      status: response.status,
      again: true,
    });
  }
}

const HOW_TO_GET_ONE =
  "On your own machine braid serve prints a link that carries one. On AWS it is the one that your identity provider issues.";

const WORDS = {
  400: "The question could not be read",
  401: "This token is not accepted",
  403: "This is not yours to ask",
  404: "There is none",
  413: "The question is too long",
  422: "The question is not right yet",
  429: "Too many questions at once",
  503: "Cannot be answered right now",
};

function refused(status, problem) {
  const fields = Array.isArray(problem.errors) ? problem.errors : [];
  let detail = fields.length ? "" : String(problem.detail ?? problem.title ?? problem.message ?? "");
  if (status === 401) detail = `It may have ended, or the server has been started anew since. ${HOW_TO_GET_ONE}`;
  if (status === 403) detail = `${detail ? `The server says: ${detail}. ` : ""}The token does not belong to this tenant.`;
  if (status === 404 && detail === "nothing is stored for this tenant") {
    detail = "Nothing is stored for this tenant yet: braid demo brings an archive to try, braid ingest your own.";
  }
  if (status === 429 || status === 503) detail = `${detail ? `${capital(detail)}. ` : ""}Trying again in a moment may help.`;
  return new Refusal(WORDS[status] ?? `The request failed (${status})`, {
    detail: capital(detail),
    fields,
    status,
    again: status === 429 || status >= 500,
  });
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
