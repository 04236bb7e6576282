// Takes machines through the real xstate package.
//
// Standard input: a list of {config, steps}, steps being {event, guards: {name: answer}, timer}.
// Standard output: for each a list of {state, transition, actions}, one for each step.
// A guard that the step has no answer for is an error: xstate must ask what our machine asked.

import { readFileSync } from "node:fs";
import { createMachine, initialTransition, transition } from "xstate";

function named(config, key) {
  // The types of all guards, or of all actions, wherever they stand in the configuration.
  const found = new Set();
  (function look(value) {
    if (value === null || typeof value !== "object") return;
    for (const [name, inner] of Object.entries(value)) {
      if (name === key) {
        for (const one of [inner].flat()) found.add(one.type ?? one);
      } else look(inner);
    }
  })(config);
  return [...found];
}

function play({ config, steps }) {
  let answers = {};
  const guards = {};
  for (const name of named(config, "guard")) {
    guards[name] = () => {
      if (!(name in answers)) throw new Error(`our machine did not ask for ${name}`);
      return answers[name];
    };
  }
  const delays = {};
  for (const state of Object.values(config.states)) {
    for (const name of Object.keys(state.after ?? {})) delays[name] = 1e9;
  }
  const machine = createMachine(config).provide({ guards, delays });
  let [snapshot] = initialTransition(machine);
  return steps.map(({ event, guards: given, timer }) => {
    answers = given;
    const type = timer ? `xstate.after.${event}.${config.id}.${snapshot.value}` : event;
    let actions;
    [snapshot, actions] = transition(machine, snapshot, { type });
    const own = actions.map((one) => one.type).filter((name) => !name.startsWith("xstate."));
    return { state: snapshot.value, done: snapshot.status === "done", actions: own };
  });
}

const work = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(work.map(play)));
