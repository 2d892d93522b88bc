//! Parses n8n's definition of a node's parameters, which is TypeScript.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::last_part;
use crate::connections::connection_kind;

/// Bytes of a text in a comment.
const MAX_TEXT: usize = 240;
/// Bytes of all properties, of about 1,500 tokens for a whole node.
const MAX_PROPERTIES: usize = 5_000;
/// Bytes of a description and of a type, from the widest to the narrowest that is tried.
const WIDTHS: [(usize, usize); 6] = [
    (240, 1_200),
    (160, 800),
    (90, 500),
    (60, 300),
    (0, 200),
    (0, 80),
];
/// Types within types that are put in their place.
const MAX_NESTING: usize = 4;

/// One parameter of a node.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct NodeProperty {
    pub name: String,
    pub r#type: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Used only if other parameters have these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The parts of a definition that a caller needs to fill in a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeDefinition {
    /// `4.2`, if the definition says it.
    pub version: Option<String>,
    /// The parameters, within 5,000 bytes: long types and texts are cut.
    pub properties: Vec<NodeProperty>,
    /// Types of credentials.
    pub credentials: Vec<String>,
    /// One of them is required.
    pub needs_credential: bool,
    /// The kinds of connections by which other nodes are attached to it; with `?` if it needs none.
    pub attached: Vec<String>,
}

/// The part of the definition that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Outside,
    Parameters,
    Credentials,
    Attached,
}

/// The comment before a property.
#[derive(Default)]
struct Comment {
    text: String,
    default: Option<String>,
    when: Option<String>,
    is_open: bool,
    /// After an unknown tag; the following lines belong to it.
    skips: bool,
}

impl NodeDefinition {
    /// Parses the known parts and ignores others.
    pub fn parse(definition: &str) -> Self {
        let mut read = Self::default();
        let (mut block, mut depth) = (Block::Outside, 0_i32);
        let mut comment = Comment::default();
        for line in definition.lines() {
            let text = line.trim();
            if read.version.is_none() && text.starts_with('*') {
                let version = text.rsplit_once("Node - Version ");
                read.version = version.map(|(_, version)| version.to_owned());
            }
            if comment.is_open || text.starts_with("/**") {
                comment.read(text);
                continue;
            }
            match (depth, block, member(text)) {
                (0, ..) => block = opened_block(text),
                (1, Block::Credentials, Some((name, required, _))) => {
                    read.needs_credential |= required;
                    if !read.credentials.contains(&name) {
                        read.credentials.push(name);
                    }
                }
                (1, Block::Attached, Some((name, required, _))) => {
                    let optional = if required { "" } else { "?" };
                    read.attached
                        .push(format!("{}{optional}", connection_kind(&name)));
                }
                (1, Block::Parameters, Some((name, required, kind))) => {
                    read.add(std::mem::take(&mut comment).describe(name, required, kind));
                }
                (2.., Block::Parameters, _) => read.add_to_last(text),
                (1, Block::Parameters, None) => read.add_to_last(text),
                _ => {}
            }
            comment = Comment::default();
            if block != Block::Outside {
                let count = |c| i32::try_from(text.matches(c).count()).unwrap_or_default();
                depth += count('{') - count('}');
                if depth <= 0 {
                    (depth, block) = (0, Block::Outside);
                }
            }
        }
        read.fit(definition);
        read
    }

    /// Adds a property. The modes of a node share properties; one that distinguishes modes, which
    /// has constants as its type, gets all of them.
    fn add(&mut self, property: NodeProperty) {
        let mut known = self.properties.iter_mut();
        match known.find(|other| other.name == property.name) {
            None => self.properties.push(property),
            Some(NodeProperty { r#type: known, .. }) => {
                if known.starts_with('\'') && !known.contains(&property.r#type) {
                    known.push_str(" | ");
                    known.push_str(&property.r#type);
                }
            }
        }
    }

    /// Adds a line to the type of the last property, if that is an object.
    fn add_to_last(&mut self, line: &str) {
        let Some(NodeProperty { r#type: kind, .. }) = self.properties.last_mut() else {
            return;
        };
        let is_comment = line.starts_with(['*', '/']);
        if is_comment || !kind.starts_with(['{', 'A']) || is_balanced(kind) {
            return;
        }
        let (name, type_of) = line.split_once(':').unwrap_or((line, ""));
        let closes = line.starts_with('}');
        if !closes && !kind.ends_with('{') {
            kind.push_str(", ");
        }
        if closes {
            kind.push_str(line.trim_end_matches([';', ',']));
        } else {
            kind.push_str(name.trim());
            kind.push_str(": ");
            kind.push_str(&plain_type(type_of.trim()));
        }
    }

    /// Puts the helper types of the definition into the types of the properties, and shortens them all
    /// until they fit.
    fn fit(&mut self, definition: &str) {
        let helpers: Vec<(&str, &str)> = definition
            .lines()
            .filter_map(|line| line.trim().strip_prefix("type ")?.split_once(" = "))
            .collect();
        for property in &mut self.properties {
            for _ in 0..MAX_NESTING {
                for (name, value) in &helpers {
                    property.r#type = property.r#type.replace(name, value.trim_end_matches(';'));
                }
            }
        }
        for (description, kind) in WIDTHS {
            for property in &mut self.properties {
                cut(&mut property.r#type, kind);
                if let Some(text) = &mut property.description {
                    cut(text, description);
                }
                property.description.take_if(|text| text.len() < 4);
            }
            let size = |one: &NodeProperty| serde_json::to_string(one).map_or(0, |text| text.len());
            if self.properties.iter().map(size).sum::<usize>() <= MAX_PROPERTIES {
                return;
            }
        }
    }
}

fn is_balanced(kind: &str) -> bool {
    kind.matches('{').count() <= kind.matches('}').count()
}

fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
}

fn opened_block(text: &str) -> Block {
    let declaration = text.strip_prefix("export ").unwrap_or(text);
    let mut words = declaration.split_whitespace();
    match (words.next(), words.next()) {
        _ if !text.ends_with('{') => Block::Outside,
        (Some("interface" | "type"), Some(name)) if name.ends_with("Credentials") => {
            Block::Credentials
        }
        (Some("interface" | "type"), Some(name)) if name.ends_with("SubnodeConfig") => {
            Block::Attached
        }
        (Some("interface" | "type"), Some(name)) if name.ends_with("Params") => Block::Parameters,
        _ => Block::Outside,
    }
}

/// Splits `name?: type;` into name, whether it is required, and type.
fn member(text: &str) -> Option<(String, bool, &str)> {
    let (name, kind) = text.split_once(':')?;
    let required = !name.ends_with('?');
    let name = name.trim_end_matches('?').trim().trim_matches(['\'', '"']);
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-$. ".contains(c);
    let is_name = !name.is_empty() && name.chars().all(legal);
    is_name.then(|| (name.to_owned(), required, kind.trim()))
}

impl Comment {
    fn read(&mut self, text: &str) {
        self.is_open = !text.ends_with("*/");
        let text = text.trim_start_matches("/**").trim_end_matches("*/").trim();
        let text = text.trim_start_matches("* ").trim_start_matches('*').trim();
        if let Some(default) = text.strip_prefix("@default") {
            self.default = Some(default.trim().to_owned());
        } else if let Some(when) = text.strip_prefix("@displayOptions.show") {
            self.when = Some(shortened(when.trim()));
        } else if let Some(unless) = text.strip_prefix("@displayOptions.hide") {
            self.when = Some(shortened(&format!("not {}", unless.trim())));
        } else if text.starts_with('@') {
            self.skips = true;
        } else if !self.skips && !text.is_empty() {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(text);
        }
    }

    fn describe(self, name: String, required: bool, kind: &str) -> NodeProperty {
        NodeProperty {
            name,
            r#type: plain_type(kind),
            required,
            default: self.default,
            when: self.when,
            description: Some(shortened(&self.text)).filter(|text| !text.is_empty()),
        }
    }
}

/// A type without the alternative that all have, an expression.
fn plain_type(kind: &str) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for kind in kind.trim_end_matches(';').split(" | ") {
        if !kind.starts_with("Expression<") && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(" | ")
}

fn shortened(text: &str) -> String {
    let mut text = text.to_owned();
    for (html, plain) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("<code>", ""),
        ("</code>", ""),
        ("<br>", ""),
        ("</a>", ""),
    ] {
        text = text.replace(html, plain);
    }
    match text.len() {
        0..=MAX_TEXT => text,
        _ => format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)]),
    }
}

impl NodeDefinition {
    /// The least parameters of a node of the type `kind`, which this defines; those of some common ones
    /// are written down here.
    pub fn example(&self, kind: &str) -> Option<Map<String, Value>> {
        let condition = json!({"combinator": "and",
            "options": {"caseSensitive": true, "leftValue": "", "typeValidation": "strict", "version": 2},
            "conditions": [{"leftValue": "={{ $json.status }}", "rightValue": "open",
                "operator": {"type": "string", "operation": "equals"}}]});
        let known = match last_part(kind) {
            "if" | "filter" => json!({ "conditions": condition }),
            "switch" => json!({"rules": {"values": [{"conditions": condition}]}}),
            "set" => json!({"assignments": {"assignments": [{"id": "1", "name": "total",
                "value": "={{ $json.price * 2 }}", "type": "number"}]}}),
            "scheduleTrigger" => json!({"rule": {"interval": [{"field": "cronExpression",
                "expression": "0 9 * * 1-5"}]}}),
            "httpRequest" => json!({"method": "POST", "url": "https://example.com/api",
                "sendBody": true, "specifyBody": "json", "jsonBody": "={{ $json }}"}),
            "webhook" => {
                json!({"httpMethod": "POST", "path": "orders", "responseMode": "lastNode"})
            }
            "respondToWebhook" => json!({"respondWith": "json", "responseBody": "={{ $json }}"}),
            "code" => json!({"jsCode": "return $input.all();"}),
            "merge" => json!({"mode": "combine", "combineBy": "combineByPosition"}),
            "agent" => json!({"promptType": "define", "text": "={{ $json.question }}"}),
            _ => {
                let needed = self
                    .properties
                    .iter()
                    .filter(|one| one.required && one.when.is_none());
                let value = |one: &NodeProperty| {
                    let first = one.r#type.split(" | ").next().unwrap_or_default();
                    match first.strip_prefix('\'') {
                        Some(text) => json!(text.trim_end_matches('\'')),
                        None if first == "string" => json!("text"),
                        None if first == "number" => json!(1),
                        None if first == "boolean" => json!(true),
                        None => Value::Null,
                    }
                };
                let all: Map<String, Value> =
                    needed.map(|one| (one.name.clone(), value(one))).collect();
                return (!all.is_empty() && all.values().all(|one| !one.is_null())).then_some(all);
            }
        };
        known.as_object().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r"
/**
 * HTTP Request Node - Version 4.5
 */

interface SlackV2Credentials {
  slackApi: CredentialReference;
}

type Helper = { a?: string };

export interface HttpRequestV45Params {
/**
 * The URL to make the request to
 */
    url: string | Expression<string>;
/**
 * Method
 * @builderHint Long advice
 * that goes on
 * @displayOptions.show { x: [true] }
 * @default GET
 */
    method?: 'GET' | 'POST' | 'POST' | Expression<string>;
  options?: {
    /** Whether
     * @hint More: of it
     * @default true
     */
    ignoreCase?: boolean | Expression<boolean>;
    proxy?: string;
  };
}

export interface XSubnodeConfig {
  model: A | A[];
  tools?: B[];
}

interface NodeBase {
  type: 'x';
}
";

    #[test]
    fn parameters_are_parsed() {
        let read = NodeDefinition::parse(DEFINITION);
        assert_eq!(read.version.as_deref(), Some("4.5"));
        assert!(read.needs_credential && read.credentials == ["slackApi"]);
        let [url, method, options] = read.properties.as_slice() else {
            panic!("{read:?}");
        };
        assert!(url.required && url.r#type == "string");
        let description = Some("The URL to make the request to");
        assert_eq!(url.description.as_deref(), description);
        assert_eq!(method.r#type, "'GET' | 'POST'");
        assert_eq!(method.description.as_deref(), Some("Method"));
        assert_eq!(method.default.as_deref(), Some("GET"));
        assert_eq!(method.when.as_deref(), Some("{ x: [true] }"));
        assert_eq!(options.r#type, "{ignoreCase?: boolean, proxy?: string}");
        assert_eq!(read.attached, ["ai_languageModel", "ai_tool?"]);
    }
}
