//! The answers of a server, searched for secrets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{MARKS, planted};
use crate::harness::Server;

/// The outputs of one server, and the secrets in them.
pub(super) struct Outputs {
    pub(super) server: Server,
    pub(super) asked: BTreeSet<String>,
    pub(super) shown: BTreeSet<String>,
}

impl Outputs {
    pub(super) fn check(&mut self, output: &str, text: &str) {
        let text = text.to_lowercase();
        for (place, planted) in planted() {
            let lower = planted.to_lowercase();
            let marks = MARKS.iter().filter_map(|mark| {
                let from = lower.find(mark)?;
                Some(&lower[from..from + 9])
            });
            if marks.into_iter().any(|secret| text.contains(secret)) {
                self.shown
                    .insert(format!("{output} shows {place}: {planted}"));
            }
        }
    }

    pub(super) async fn ask(&mut self, output: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply = self.server.post(body.to_string()).await;
        self.check(output, &reply.body);
        self.asked
            .insert(output.split(' ').next().unwrap().to_owned());
        reply.json()
    }

    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask(tool, "tools/call", params).await
    }
}
