// Hosts chosen one by one: Ctrl or Cmd adds one, Shift everything between two of a rack; Space adds the one under the cursor.

export class Selection {
  constructor(scene, act) {
    this.scene = scene;
    this.act = act;
    this.last = null;
  }

  only(names) {
    this.scene.selected = new Set(names);
    this.last = null;
  }

  choose(names, rack = null) {
    const { selected } = this.scene;
    if (rack && this.last && rack.hosts.some((host) => host.node === this.last)) {
      for (const name of between(rack, this.last, names[0])) selected.add(name);
    } else if (names.every((name) => selected.has(name))) {
      for (const name of names) selected.delete(name);
    } else {
      for (const name of names) selected.add(name);
    }
    this.last = names[0];
    this.act.show([...selected]);
  }
}

function between(rack, one, other) {
  const names = rack.hosts.map((host) => host.node);
  const [from, to] = [names.indexOf(one), names.indexOf(other)].sort((a, b) => a - b);
  return names.slice(from, to + 1);
}
