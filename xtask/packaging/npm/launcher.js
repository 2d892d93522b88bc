#!/usr/bin/env node
// Starts the program, which is in the package for this platform. Its stdout belongs to the protocol: everything
// that is said here goes to stderr.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { name, version, bin, optionalDependencies, homepage } = require("../package.json");

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

const program = Object.keys(bin)[0];
const platform = `${process.platform}-${process.arch}`;

function fail(text) {
  process.stderr.write(`${program}: ${text}\n`);
  process.exit(1);
}

function find() {
  const wanted = `${name}-${platform}`;
  if (!(wanted in optionalDependencies)) {
    const all = Object.keys(optionalDependencies).map((other) => other.slice(name.length + 1));
    fail(`there is no program for ${platform}, only for ${all.join(", ")}. See ${homepage}`);
  }
  const file = process.platform === "win32" ? `${program}.exe` : program;
  try {
    return require.resolve(`${wanted}/bin/${file}`);
  } catch {
    return fail(
      `the package ${wanted} is missing, which has the program. Install it: npm install ${wanted}@${version}. ` +
        "npm leaves it out with --omit=optional, with a lock file of another platform, and on Linux without " +
        `glibc (Alpine). See ${homepage}`,
    );
  }
}

const child = spawn(find(), process.argv.slice(2), { stdio: "inherit", windowsHide: true });
child.on("error", (error) => fail(error.message));
for (const signal of SIGNALS) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + constants.signals[signal] : code);
});
