// The pinned host, rack, zone or selection: fetched from the server, which decides what its reader may do there. Never replaced under a hand.

const AGAIN_MS = 1000;

export class Panel {
  constructor(box, act) {
    this.box = box;
    this.act = act;
    this.at = null;
    this.asked = 0;
    box.addEventListener("click", (event) => {
      const job = event.target.closest("[data-light]");
      if (job) {
        event.preventDefault();
        this.act.light(job.dataset.light, job.dataset.name);
      }
      if (event.target.closest("[data-unpin]")) {
        event.preventDefault();
        this.act.pin(null);
        document.getElementById("map").focus();
      }
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.act.pin(null);
      document.getElementById("map").focus();
    });
    box.addEventListener("submit", (event) => this.send(event));
  }

  async show(at) {
    this.at = at;
    this.box.hidden = !at;
    document.body.classList.toggle("pinned", Boolean(at));
    if (at) await this.load();
  }

  // Something about the host changed: again, but not while somebody types in it, and at most once a second.
  refresh() {
    if (!this.at || this.later) return;
    this.later = setTimeout(() => {
      this.later = null;
      if (this.at && !this.busy()) this.load();
    }, Math.max(0, this.asked + AGAIN_MS - performance.now()));
  }

  busy() {
    return this.box.querySelector("details[open], input:focus") !== null;
  }

  // New content, with the focus still in the panel if it was: the keyboard never falls out of what it works on.
  fill(html) {
    const within = this.box.contains(document.activeElement);
    this.box.innerHTML = html;
    if (within) this.box.focus();
  }

  async load() {
    this.asked = performance.now();
    const at = this.at;
    const answer = await fetch(addressOf(at), { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    if (this.at !== at) return;
    if (answer?.ok) this.fill(await answer.text());
    else this.fail();
  }

  fail() {
    const note = document.createElement("p");
    note.className = "notice bad";
    note.textContent = `${this.at.node ?? "This part of the cluster"} could not be read just now.`;
    this.box.replaceChildren(note);
  }

  // Cordon, uncordon, drain: answered with the panel as it is afterwards.
  async send(event) {
    event.preventDefault();
    const form = event.target;
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form, event.submitter), headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    if (answer === null) return this.fail();
    this.fill(await answer.text());
    this.box.scrollTop = 0;
    return undefined;
  }
}

function addressOf({ node, gpu, az, rack, hosts }) {
  if (node) return `/cluster/hosts/${encodeURIComponent(node)}/panel/${gpu === null ? "" : `?gpu=${gpu}`}`;
  const where = new URLSearchParams(hosts ? { hosts: hosts.join(",") } : rack ? { az, rack } : { az });
  return `/cluster/operate/?${where}`;
}
