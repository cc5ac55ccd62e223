// Finds a host, a job or a team by what its name holds, and takes the map there.

import { onKey } from "../js/keys.js";

export class Search {
  constructor(field, list, scene, act) {
    this.field = field;
    this.list = list;
    this.scene = scene;
    this.act = act;
    field.addEventListener("input", () => this.show());
    field.addEventListener("keydown", (event) => this.key(event));
    field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    onKey("f", () => field.focus());
  }

  show() {
    const text = this.field.value.trim();
    this.found = text ? this.scene.cluster.find(text) : [];
    this.list.replaceChildren(...this.found.map((one, index) => this.entry(one, index)));
    if (text && !this.found.length) this.list.append(nothing(text));
    this.list.hidden = !text;
    this.field.setAttribute("aria-expanded", String(Boolean(text)));
    this.choose(this.found.length ? 0 : -1);
  }

  entry(one, index) {
    const row = document.createElement("li");
    row.id = `found-${index}`;
    row.role = "option";
    row.textContent = one.kind === "host" ? one.name : `${one.name} · ${one.team} · ${one.gpus} GPUs`;
    row.addEventListener("pointerdown", (event) => { event.preventDefault(); this.go(one); });
    return row;
  }

  choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === index)));
    this.field.setAttribute("aria-activedescendant", index >= 0 ? `found-${index}` : "");
  }

  key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const n = this.found?.length ?? 0;
      if (n) this.choose((this.chosen + (event.key === "ArrowDown" ? 1 : n - 1)) % n);
    } else if (event.key === "Enter") {
      if (this.found?.[this.chosen]) this.go(this.found[this.chosen]);
    } else if (event.key === "Escape") {
      this.field.value = "";
      this.close();
    } else {
      return;
    }
    event.preventDefault();
  }

  go(one) {
    if (one.kind === "host") this.act.pin({ node: one.name, gpu: null });
    else this.act.light(one.name);
    this.field.value = "";
    this.close();
    document.getElementById("map").focus();
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
  }
}

function nothing(text) {
  const row = document.createElement("li");
  row.textContent = `Nothing on the map is called “${text}”.`;
  return row;
}
