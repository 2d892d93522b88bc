//! The findings, and how they are printed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::config;

/// More tokens than this are a warning.
const MAX_TOKENS: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Finding {
    status: Status,
    check: &'static str,
    text: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    advice: String,
}

/// All findings. No secret is in them: values of options are not.
#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// True if the configuration cannot be used.
    is_refused: bool,
}

impl Report {
    pub(super) fn add(&mut self, status: Status, check: &'static str, text: String, advice: &str) {
        self.findings.push(Finding {
            status,
            check,
            text,
            advice: advice.to_owned(),
        });
    }

    pub(super) fn ok(&mut self, check: &'static str, text: String) {
        self.add(Status::Ok, check, text, "");
    }

    pub(super) fn warn(&mut self, check: &'static str, text: String, advice: &str) {
        self.add(Status::Warn, check, text, advice);
    }

    pub(super) fn fail(&mut self, check: &'static str, text: String, advice: &str) {
        self.add(Status::Fail, check, text, advice);
    }

    /// Adds the cost of a list of tools, for each backend of a gateway: four bytes of JSON count as one token.
    pub(super) fn context(&mut self, whose: &str, tools: &[String]) {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        let mut bytes = 0;
        for tool in tools {
            let named: Option<Named> = serde_json::from_str(tool).ok();
            let name = named.map(|tool| tool.name).unwrap_or_default();
            if let Some((backend, _)) = name.split_once("__") {
                *parts.entry(backend.to_owned()).or_default() += tool.len();
            }
            bytes += tool.len();
        }
        let tokens = bytes / 4;
        let mut text = format!("about {tokens} tokens for {} tools of {whose}", tools.len());
        if !parts.is_empty() {
            let parts: Vec<_> = parts
                .iter()
                .map(|(key, bytes)| format!("{key} {}", bytes / 4))
                .collect();
            text.push_str(&format!(" ({})", parts.join(", ")));
        }
        match tokens > MAX_TOKENS {
            true => self.warn(
                "context",
                text,
                "offer fewer: --toolsets, --read-only, or `search_above` and `allow` of the gateway",
            ),
            false => self.ok("context", text),
        }
    }

    /// Prints the findings, and returns the exit code.
    pub(super) fn print(&self, json: bool) -> ExitCode {
        let mut text = String::new();
        if json {
            text = serde_json::to_string_pretty(&self.findings).unwrap_or_default() + "\n";
        } else {
            for finding in &self.findings {
                let status = match finding.status {
                    Status::Ok => "ok",
                    Status::Warn => "warn",
                    Status::Fail => "fail",
                };
                text.push_str(&format!(
                    "{status:<5}{:<9}{}\n",
                    finding.check, finding.text
                ));
                if !finding.advice.is_empty() {
                    text.push_str(&format!("{:14}{}\n", "", finding.advice));
                }
            }
        }
        // A closed pipe changes nothing.
        let _ = std::io::stdout().write_all(text.as_bytes());
        match self.is_refused {
            true => ExitCode::from(config::UNUSABLE),
            false => ExitCode::from(u8::from(self.has_failed())),
        }
    }

    /// Ends the findings about the configuration: it cannot be used if any of them is a failure.
    pub(super) fn end_configuration(&mut self) {
        self.is_refused = self.has_failed();
        if !self.is_refused {
            self.ok("config", "it can be used".to_owned());
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.status == Status::Fail)
    }
}
