//! `server.json` against the packages that it names, the rules of the registry, and, where it can be fetched, the
//! published JSON Schema.

mod rules;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Context, mcpb, output};
use crate::layout::{Layout, create_dir};
use crate::package::archive::sha256;
use crate::package::server_json::SCHEMA;

const FETCH_TIMEOUT: Duration = Duration::from_secs(20);

const VALIDATE: &str = r#"
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { Ajv } from "ajv";
import formats from "ajv-formats";
const [schema, ...files] = process.argv.slice(1).map((file) => JSON.parse(readFileSync(file, "utf8")));
const Version = schema.$schema.includes("2020-12") ? Ajv2020 : Ajv;
const ajv = new Version({ strict: false, allErrors: true });
formats.default(ajv);
const validate = ajv.compile(schema);
for (const file of files) {
  if (!validate(file)) throw new Error(file.name + ": " + ajv.errorsText(validate.errors));
}
"#;

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    for file in context.files {
        let server: Value = serde_json::from_slice(&fs::read(file)?)?;
        let faults = rules::faults(&server);
        ensure!(faults.is_empty(), "{}", faults.join("; "));
        let dist = file.parent().context("no folder")?;
        for package in server["packages"].as_array().into_iter().flatten() {
            let Some(sum) = package["fileSha256"].as_str() else {
                continue;
            };
            let identifier = package["identifier"].as_str().unwrap_or_default();
            let name = identifier.rsplit('/').next().unwrap_or_default();
            ensure!(
                sha256(&fs::read(dist.join(name))?) == sum,
                "{name}: another sum"
            );
        }
    }
    let schema = match schema(context.layout) {
        Ok(schema) => schema,
        Err(error) => {
            print_as!(
                "server-json",
                "not compared with the published schema: {error:#}"
            );
            return Ok(());
        }
    };
    let mut node = Command::new("node");
    node.args(["--input-type=module", "--eval", VALIDATE])
        .arg(schema)
        .args(context.files);
    output(node.current_dir(mcpb::install(context.layout)?))?;
    print_as!("server-json", "valid by the published schema");
    Ok(())
}

/// Fetches the published schema, once; returns its file.
fn schema(layout: &Layout) -> anyhow::Result<PathBuf> {
    let folder = layout.backends().join("server-json");
    let file = folder.join("server.schema.json");
    if !file.exists() {
        let request = ureq::get(SCHEMA)
            .config()
            .timeout_global(Some(FETCH_TIMEOUT))
            .build();
        let text = request.call()?.body_mut().read_to_string()?;
        create_dir(&folder)?;
        fs::write(&file, text)?;
    }
    Ok(file)
}
