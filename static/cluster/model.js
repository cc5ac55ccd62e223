// The cluster as the map shows it: what the server sent, indexed for drawing and for questions.

const FAULTY = -2;   // -1 is free; from 0 on, an index into the jobs

// What one GPU is doing, in the words that the legend uses.
function stateOf(slot, job, hostState) {
  if (slot === FAULTY) return "faulty";
  if (job) return job.phase.toLowerCase();
  if (hostState === "READY" || hostState === "PROBATION") return "free";
  return hostState === "DOWN" || hostState === "SUSPECT" ? "down" : "closed";
}

// A node holds for each GPU its state, the job that holds it (null without one) and for what it is kept, if it is.
export class Cluster {
  // snapshot: { nodes: [[name, az, rack, gpu type, host state, [job index | -1 free | -2 faulty, one a GPU]]],
  //             jobs: [[id, team, phase, GPUs, priority, end in seconds | null]],
  //             held: [{ kind, team, job, name, start, end, nodes: [[name, GPUs]] }] }
  load(snapshot) {
    this.jobs = new Map();
    this.nodes = new Map();
    this.holds = [];
    this.holdsOf = new Map();
    this.put(snapshot);
  }

  // A delta has the same shape; it holds only the nodes that changed, and names those that are gone.
  put({ nodes, jobs, gone = [], held = null }) {
    const table = jobs.map(([id, team, phase, gpus, priority, ends]) => ({ id, team, phase, gpus, priority, ends: ends ?? null }));
    for (const job of table) this.jobs.set(job.id, job);
    for (const [name, az, rack, type, state, slots] of nodes) {
      const holders = slots.map((slot) => (slot >= 0 ? table[slot] : null));
      const states = slots.map((slot, gpu) => stateOf(slot, holders[gpu], state));
      const node = { name, az, rack, type, state, holders, states };
      node.kept = this.keptOn(node);
      this.nodes.set(name, node);
    }
    for (const name of gone) this.nodes.delete(name);
    this.forgetEnded();
    return [...new Set([...nodes.map((node) => node[0]), ...this.keep(held)])];
  }

  // Takes in what is kept for later; answers the hosts for which that changed.
  keep(held) {
    if (held === null) return [];
    const before = this.holdsOf;
    this.holds = held;
    this.holdsOf = new Map();
    for (const hold of held) {
      for (const [name, gpus] of hold.nodes) {
        const own = this.holdsOf.get(name) ?? [];
        own.push({ ...hold, gpus });
        this.holdsOf.set(name, own);
      }
    }
    const touched = [...new Set([...before.keys(), ...this.holdsOf.keys()])].filter((name) => this.nodes.has(name));
    for (const name of touched) this.nodes.get(name).kept = this.keptOn(this.nodes.get(name));
    return touched;
  }

  // For each GPU the kind of hold on it: so many of a host's GPUs, free ones first.
  keptOn(node) {
    const kept = node.states.map(() => null);
    const order = node.states.map((_, gpu) => gpu).sort((a, b) => Number(node.holders[a] !== null) - Number(node.holders[b] !== null));
    for (const { kind, gpus } of this.holdsOf.get(node.name) ?? []) {
      for (const gpu of order.filter((one) => kept[one] === null).slice(0, gpus)) kept[gpu] = kind;
    }
    return kept;
  }

  // GPUs of the largest gang of whole hosts and one remainder that could start now in these hosts of one rack.
  largestGang(names) {
    let whole = 0, broken = 0;
    for (const name of names) {
      const node = this.nodes.get(name), free = node.states.filter((state) => state === "free").length;
      if (free === node.states.length) whole += free;
      else broken = Math.max(broken, free);
    }
    return whole + broken;
  }

  forgetEnded() {
    const held = new Set();
    for (const node of this.nodes.values()) for (const job of node.holders) if (job) held.add(job.id);
    for (const id of this.jobs.keys()) if (!held.has(id)) this.jobs.delete(id);
  }

  counts() {
    const byState = new Map(), byType = new Map();
    for (const node of this.nodes.values()) {
      const type = byType.get(node.type) ?? { total: 0, free: 0, used: 0 };
      byType.set(node.type, type);
      node.states.forEach((state, gpu) => {
        byState.set(state, (byState.get(state) ?? 0) + 1);
        type.total += 1;
        if (state === "free") type.free += 1;
        else if (node.holders[gpu]) type.used += 1;
      });
    }
    return { byState, byType };
  }

  hostStates() {
    const found = new Map();
    for (const node of this.nodes.values()) found.set(node.state, (found.get(node.state) ?? 0) + 1);
    return found;
  }

  teams() {
    const found = new Map();
    for (const node of this.nodes.values()) {
      for (const job of node.holders) if (job) found.set(job.team, (found.get(job.team) ?? 0) + 1);
    }
    return [...found].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  }

  // Where a gang sits: its hosts with their GPUs, and the racks and zones that they are in.
  gang(id) {
    const hosts = [], racks = new Set(), azs = new Set();
    let gpus = 0;
    for (const node of this.nodes.values()) {
      const held = node.holders.filter((job) => job?.id === id).length;
      if (!held) continue;
      hosts.push(node.name);
      racks.add(`${node.az} ${node.rack}`);
      azs.add(node.az);
      gpus += held;
    }
    return { job: this.jobs.get(id) ?? null, hosts, racks: [...racks], azs: [...azs], gpus };
  }

  // Names that hold what was typed, for the search: hosts, racks and jobs.
  find(text, most = 8) {
    const wanted = text.toLowerCase(), found = [];
    for (const node of this.nodes.values()) {
      if (found.length >= most) return found;
      if (node.name.toLowerCase().includes(wanted)) found.push({ kind: "host", name: node.name });
    }
    for (const job of this.jobs.values()) {
      if (found.length >= most) return found;
      if (job.id.toLowerCase().startsWith(wanted) || job.team.toLowerCase().includes(wanted)) {
        found.push({ kind: "job", name: job.id, team: job.team, gpus: job.gpus });
      }
    }
    return found;
  }
}
