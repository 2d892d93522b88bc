//! Parses n8n's definition of a node's parameters, which is TypeScript.

use schemars::JsonSchema;
use serde::Serialize;

/// Bytes of a description or a type.
const MAX_TEXT: usize = 240;

/// One parameter of a node.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct NodeProperty {
    pub(super) name: String,
    pub(super) r#type: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<String>,
    /// Used only if other parameters have these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeDefinition {
    pub(super) version: Option<String>,
    pub(super) properties: Vec<NodeProperty>,
    /// Types of credentials.
    pub(super) credentials: Vec<String>,
}

/// The part of the definition that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Outside,
    Parameters,
    Credentials,
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

/// Parses the known parts and ignores others.
pub(super) fn parse(definition: &str) -> NodeDefinition {
    let mut read = NodeDefinition::default();
    let (mut block, mut depth) = (Block::Outside, 0_i32);
    let mut comment = Comment::default();
    for line in definition.lines() {
        let text = line.trim();
        if read.version.is_none() && text.starts_with('*') {
            let version = text.rsplit_once("Node - Version ");
            read.version = version.map(|(_, version)| version.to_owned());
        }
        if comment.is_open || text.starts_with("/**") {
            if depth <= 1 || comment.is_open {
                comment.read(text);
            }
            continue;
        }
        match (depth, block, member(text)) {
            (0, ..) => block = opened_block(text),
            (1, Block::Credentials, Some((name, ..))) => read.credentials.push(name),
            (1, Block::Parameters, Some((name, required, kind))) => {
                read.add(std::mem::take(&mut comment).describe(name, required, kind));
            }
            (2, Block::Parameters, Some((name, ..))) => read.add_to_last(&name),
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
    read
}

impl NodeDefinition {
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

    /// Adds the name of a member to the type of the last property, if that is an object.
    fn add_to_last(&mut self, name: &str) {
        let Some(NodeProperty { r#type: kind, .. }) = self.properties.last_mut() else {
            return;
        };
        if kind.starts_with("object") && kind.len() < MAX_TEXT {
            kind.push_str(if kind == "object" { " of " } else { ", " });
            kind.push_str(name);
        }
    }
}

fn opened_block(text: &str) -> Block {
    let declaration = text.strip_prefix("export ").unwrap_or(text);
    let mut words = declaration.split_whitespace();
    match (words.next(), words.next()) {
        _ if !text.ends_with('{') => Block::Outside,
        (Some("interface" | "type"), Some("Credentials")) => Block::Credentials,
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
        let kind = if kind.starts_with('{') && !kind.contains('}') {
            "object".to_owned()
        } else {
            let mut kinds: Vec<&str> = Vec::new();
            for kind in kind.trim_end_matches(';').split(" | ") {
                if !kind.starts_with("Expression<") && !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            shortened(&kinds.join(" | "))
        };
        NodeProperty {
            name,
            r#type: kind,
            required,
            default: self.default,
            when: self.when,
            description: Some(shortened(&self.text)).filter(|text| !text.is_empty()),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r"
/**
 * HTTP Request Node - Version 4.5
 */

interface Credentials {
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
     * @default true
     */
    ignoreCase?: boolean | Expression<boolean>;
    proxy?: string;
  };
}

interface NodeBase {
  type: 'x';
}
";

    #[test]
    fn parameters_are_parsed() {
        let read = parse(DEFINITION);
        assert_eq!(read.version.as_deref(), Some("4.5"));
        assert_eq!(read.credentials, ["slackApi"]);
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
        assert_eq!(options.r#type, "object of ignoreCase, proxy");
    }
}
