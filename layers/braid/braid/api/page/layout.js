// Places a small graph in layers: where walks begin first, each step one layer on. Pure; knows nothing of the page.
const SWEEPS = 6;

/** Merge walks into vertices and edges; an edge leads as it is stored, whichever way it was walked. */
export function merged(walks) {
  const vertices = new Map();
  const edges = new Map();
  for (const walk of walks) {
    walk.ids.forEach((id, place) => {
      if (!vertices.has(id)) vertices.set(id, { id, name: walk.names[place] ?? id, begins: false, parent: null, near: new Set() });
      if (place === 0) vertices.get(id).begins = true;
    });
    walk.types.forEach((type, place) => {
      const [one, other] = [walk.ids[place], walk.ids[place + 1]];
      const [from, to] = walk.inward[place] ? [other, one] : [one, other];
      const key = JSON.stringify([from, type, to]);
      if (!edges.has(key)) edges.set(key, { from, to, type, evidence: walk.evidence[place] ?? null, faint: Boolean(walk.faint) });
      vertices.get(one).near.add(other);
      vertices.get(other).near.add(one);
    });
  }
  return { vertices: [...vertices.values()], edges: [...edges.values()] };
}

/**
 * Place vertices in layers from left to right, as far apart as the room allows: `size` is of one vertex, `beside` the gap
 * to the next in its layer, `along` the least and the most to the next layer. Null when they do not fit.
 */
export function layered(walks, { size, beside, along, room }) {
  const { vertices, edges } = merged(walks);
  const layers = inLayers(vertices);
  order(layers);
  const spare = (room - layers.length * size.width) / Math.max(1, layers.length - 1);
  if (spare < along.least) return null;
  const gap = Math.min(spare, along.most);
  const [onward, across] = [size.width + gap, size.height + beside];
  const widest = Math.max(0, ...layers.map((layer) => layer.length));
  layers.forEach((layer, depth) => {
    const indent = ((widest - layer.length) * across) / 2;
    layer.forEach((vertex, place) => Object.assign(vertex, { ...size, x: depth * onward, y: indent + place * across }));
  });
  return { vertices, edges, width: layers.length * onward - gap, height: widest * across - beside };
}

/** Place vertices below one another, each step indented: for where there is no room beside. */
export function indented(walks, { width, height, gap, indent }) {
  const { vertices, edges } = merged(walks);
  inLayers(vertices);
  const rows = [];
  const follow = (vertex) => {
    rows.push(vertex);
    for (const one of vertices) if (one.parent === vertex.id) follow(one);
  };
  for (const vertex of vertices) if (vertex.parent === null) follow(vertex);
  rows.forEach((vertex, row) => {
    const x = vertex.depth * indent;
    Object.assign(vertex, { x, y: row * (height + gap), width: width - x, height });
  });
  return { vertices: rows, edges, width, height: rows.length * (height + gap) - gap };
}

function inLayers(vertices) {
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const layers = [];
  const waiting = new Set(byId.keys());
  // Where a walk began comes first; of what hangs together with it no second beginning does.
  const begins = [...vertices.filter((vertex) => vertex.begins), ...vertices];
  for (const start of begins) {
    if (!waiting.has(start.id)) continue;
    let ring = [start.id];
    waiting.delete(start.id);
    for (let depth = 0; ring.length; depth += 1) {
      (layers[depth] ??= []).push(...ring.map((id) => Object.assign(byId.get(id), { depth })));
      const next = [];
      for (const id of ring) {
        for (const near of byId.get(id).near) {
          if (!waiting.delete(near)) continue;
          byId.get(near).parent = id;
          next.push(near);
        }
      }
      ring = next;
    }
  }
  return layers;
}

/** Bring vertices of a layer near to the middle of what they are tied to, a few times to and fro. */
function order(layers) {
  const place = new Map();
  const note = (layer) => layer.forEach((vertex, index) => place.set(vertex.id, index - (layer.length - 1) / 2));
  layers.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const middle = new Map(layer.map((vertex) => {
        const near = [...vertex.near].filter((id) => !layer.some((one) => one.id === id)).map((id) => place.get(id));
        return [vertex.id, near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : place.get(vertex.id)];
      }));
      layer.sort((one, other) => middle.get(one.id) - middle.get(other.id));
      note(layer);
    }
  }
}

/** Break a name into at most three lines of about `length` characters. */
export function lines(name, length, most = 3) {
  if (name.length <= length) return [name];
  if (most === 1) return [`${name.slice(0, length - 1).trimEnd()}…`];
  const cut = name.lastIndexOf(" ", length);
  const first = cut > length / 3 ? name.slice(0, cut) : name.slice(0, length);
  return [first, ...lines(name.slice(first.length).trimStart(), length, most - 1)];
}
