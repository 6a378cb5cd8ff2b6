// Documents that are dropped here or chosen: each is posted, and its job is followed to its end.
import { byId, h, plural } from "./elements.js";
import { get, post } from "./server.js";

const AT_ONCE = 3; // of one tenant the server lets five wait
const EVERY_MS = 700;
const AROUND_BYTES = 2_000; // of a request, beside the content
const MEGABYTE = 1_000_000;
const BESIDE = ".metadata.json"; // follows the name of the document whose metadata a file has

/** Let documents be added, or say why not; `onAdded` is called when some were. */
export function offerUpload({ role, mostBytes }, onAdded) {
  const may = role === "writer";
  byId("upload").hidden = !may;
  byId("no-upload").hidden = may;
  if (!may) return;
  const most = Math.floor((mostBytes - AROUND_BYTES) * 0.75); // base64 writes three bytes as four
  byId("upload-most").textContent = `${(most / MEGABYTE).toFixed(1)} MB`;
  const add = (files) => addAll([...files], most, onAdded);
  byId("files").onchange = (event) => {
    add(event.target.files);
    event.target.value = ""; // so that the same file can be chosen again
  };
  const zone = byId("drop");
  zone.ondragover = (event) => {
    event.preventDefault();
    zone.dataset.over = "";
  };
  zone.ondragleave = () => delete zone.dataset.over;
  zone.ondrop = (event) => {
    event.preventDefault();
    delete zone.dataset.over;
    add(event.dataTransfer.files);
  };
}

/** Nothing that is dropped beside the zone opens instead of the page. */
export function keepDrops() {
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
}

async function addAll(files, most, onAdded) {
  const named = new Map(files.map((file) => [pathOf(file), file]));
  const isBeside = (path) => path.endsWith(BESIDE) && named.has(path.slice(0, -BESIDE.length));
  const documents = files.filter((file) => !isBeside(pathOf(file)));
  const waiting = documents.map((file) => ({ file, beside: named.get(pathOf(file) + BESIDE), line: h("li", {}, h("bdi", {}, file.name), h("span", { role: "status" }, "waits")) }));
  byId("uploads").prepend(...waiting.map(({ line }) => line));
  let added = 0;
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) if (await addOne(next, most)) added += 1;
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (added) onAdded();
}

async function addOne({ file, beside, line }, most) {
  const say = (text, state) => {
    line.dataset.state = state;
    line.lastChild.textContent = text;
  };
  try {
    if (!file.size) throw new Error("is empty");
    const size = file.size + (beside?.size ?? 0);
    if (size > most) throw new Error(`is ${(size / MEGABYTE).toFixed(1)} MB, of at most ${(most / MEGABYTE).toFixed(1)} here; braid ingest takes longer ones`);
    say("is sent …", "running");
    const metadata = beside && { metadata: await objectOf(beside) };
    let job = await post("documents", { name: pathOf(file), content: await base64(file), ...metadata });
    while (job.status === "running") {
      say("is read, cut and embedded …", "running");
      await new Promise((done) => setTimeout(done, EVERY_MS));
      job = await get(`imports/${encodeURIComponent(job.id)}`);
    }
    if (job.status === "failed") throw new Error(`was not written: ${job.error}`);
    if (job.errors) throw new Error(job.reasons[0] ?? "could not be read");
    say(`added: ${plural(job.lines, "chunk")}, ${job.written ? `${job.written.toLocaleString("en")} new or changed` : "all as they were"}`, "done");
    return true;
  } catch (error) {
    const fields = (error.fields ?? []).map((field) => field.detail).join("; ");
    say([error.title, error.detail || fields].filter(Boolean).join(": ") || error.message, "refused");
    return false;
  }
}

const pathOf = (file) => file.webkitRelativePath || file.name;

/** The object that a file of JSON has. */
async function objectOf(file) {
  const value = await file.text().then(JSON.parse).catch(() => null);
  if (!value || typeof value !== "object") throw new Error(`${file.name}: is not a JSON object`);
  return value;
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("cannot be read by the browser; a folder is added by braid ingest"));
    reader.readAsDataURL(file);
  });
}
