//! What n8n says of the parameters of a node: a definition in TypeScript.

use schemars::JsonSchema;
use serde::Serialize;

/// What is shown of a description or a type.
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
    /// It counts only if other parameters have these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
}

/// What is read of a definition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeDefinition {
    pub(super) version: Option<String>,
    pub(super) properties: Vec<NodeProperty>,
    /// Types of credentials.
    pub(super) credentials: Vec<String>,
}

/// Where in the definition a line is.
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
    /// Lines after a tag that is not read belong to it.
    skips: bool,
}

/// Reads as much as is understood.
pub(super) fn parse(definition: &str) -> NodeDefinition {
    let mut read = NodeDefinition::default();
    let (mut block, mut depth) = (Block::Outside, 0_i32);
    let mut comment = Comment::default();
    for line in definition.lines() {
        let text = line.trim();
        if read.version.is_none() && text.starts_with('*') {
            read.version = text
                .rsplit_once("Node - Version ")
                .map(|(_, version)| version.to_owned());
        }
        if comment.is_open || text.starts_with("/**") {
            if depth <= 1 || comment.is_open {
                comment.read(text);
            }
            continue;
        }
        if depth == 0 {
            block = opened(text);
        } else if depth == 1 && block == Block::Credentials {
            read.credentials
                .extend(name_of(text).map(|(name, _, _)| name));
        } else if depth == 1 && block == Block::Parameters {
            if let Some((name, required, kind)) = name_of(text) {
                let property = std::mem::take(&mut comment).describe(name, required, kind);
                read.add(property);
            }
        } else if depth == 2
            && block == Block::Parameters
            && let (Some((name, _, _)), Some(parent)) = (name_of(text), read.properties.last_mut())
            && parent.r#type.starts_with("object")
            && parent.r#type.len() < MAX_TEXT
        {
            let glue = if parent.r#type == "object" {
                " of "
            } else {
                ", "
            };
            parent.r#type.push_str(glue);
            parent.r#type.push_str(&name);
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
    /// Modes share parameters; what tells them apart has all of its values.
    fn add(&mut self, property: NodeProperty) {
        let known = self
            .properties
            .iter_mut()
            .find(|other| other.name == property.name);
        match known {
            None => self.properties.push(property),
            Some(known)
                if known.r#type.starts_with('\'') && !known.r#type.contains(&property.r#type) =>
            {
                known.r#type.push_str(" | ");
                known.r#type.push_str(&property.r#type);
            }
            Some(_) => {}
        }
    }
}

fn opened(text: &str) -> Block {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = match words.as_slice() {
        ["export", "interface" | "type", name, ..] | ["interface" | "type", name, ..] => *name,
        _ => return Block::Outside,
    };
    match () {
        () if !text.ends_with('{') => Block::Outside,
        () if name == "Credentials" => Block::Credentials,
        () if name.ends_with("Params") => Block::Parameters,
        () => Block::Outside,
    }
}

/// `name?: type;` as name, whether it is required, and type.
fn name_of(text: &str) -> Option<(String, bool, &str)> {
    let (name, kind) = text.split_once(':')?;
    let (name, required) = match name.strip_suffix('?') {
        Some(name) => (name, false),
        None => (name, true),
    };
    let name = name.trim().trim_matches(['\'', '"']);
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
            let kind = kind.trim_end_matches(';');
            let kinds = kind
                .split(" | ")
                .filter(|kind| !kind.starts_with("Expression<"));
            let mut seen: Vec<&str> = Vec::new();
            kinds.for_each(|kind| {
                if !seen.contains(&kind) {
                    seen.push(kind);
                }
            });
            shortened(&seen.join(" | "))
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
    let mut text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    for tag in ["<code>", "</code>", "<br>", "</a>"] {
        text = text.replace(tag, "");
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
    fn parameters_are_read() {
        let read = parse(DEFINITION);
        assert_eq!(read.version.as_deref(), Some("4.5"));
        assert_eq!(read.credentials, ["slackApi"]);
        let [url, method, options] = read.properties.as_slice() else {
            panic!("{read:?}");
        };
        assert!(url.required && url.r#type == "string");
        assert_eq!(
            url.description.as_deref(),
            Some("The URL to make the request to")
        );
        assert_eq!(method.r#type, "'GET' | 'POST'");
        assert_eq!(method.description.as_deref(), Some("Method"));
        assert_eq!(method.default.as_deref(), Some("GET"));
        assert_eq!(method.when.as_deref(), Some("{ x: [true] }"));
        assert_eq!(options.r#type, "object of ignoreCase, proxy");
    }
}
