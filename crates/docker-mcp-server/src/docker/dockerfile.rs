//! The images that a build uses, for the rules about images.
//!
//! A Dockerfile in which a builder could read more than is read here is refused, not guessed at.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;

use super::Docker;
use crate::name::ImageName;
use crate::policy::forbidden;

const INSTRUCTIONS: &str = "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER \
    ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR";
/// The frontend whose syntax is read here.
const FRONTEND: &str = "docker/dockerfile";
const QUOTES: [char; 4] = ['"', '\'', '\\', '`'];

impl Docker {
    /// Refuses a build that uses an image which the policy hides.
    /// Errors also when the images depend on what only the builder knows.
    pub(crate) async fn permit_build(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        if !self.policy.has_image_rules() {
            return Ok(());
        }
        let refused = |what: &str| {
            forbidden(format!(
                "The rules about images (--allow, --deny) cannot judge this Dockerfile: it has \
                 {what}. Write every image out, one instruction after the other; only ARGs before \
                 the first FROM may be in a name."
            ))
        };
        let found = images(dockerfile, build_args);
        if let Some(what) = found.unclear {
            return Err(refused(what));
        }
        for name in &found.names {
            let image =
                ImageName::new(name).map_err(|_| refused("an image without a plain name"))?;
            self.try_image(&image).await?;
        }
        Ok(())
    }
}

/// What is known about the images of a Dockerfile.
#[derive(Default)]
pub(crate) struct BuildImages {
    /// Of `FROM`, `COPY --from`, `RUN --mount=from=` and `# syntax=`, without those of earlier stages. A
    /// variable that is not known stays in the name, which makes it invalid.
    pub(crate) names: Vec<String>,
    /// Something by which a builder may use others.
    unclear: Option<&'static str>,
    args: BTreeMap<String, String>,
    stages: Vec<String>,
}

/// Reads a Dockerfile.
pub(crate) fn images(dockerfile: &str, build_args: &BTreeMap<String, String>) -> BuildImages {
    let mut found = BuildImages::default();
    if build_args.contains_key("BUILDKIT_SYNTAX") {
        found.refuse("the build argument BUILDKIT_SYNTAX");
    }
    let mut open = String::new();
    for line in dockerfile.trim_start_matches('\u{feff}').lines() {
        let start = line.trim();
        if let Some(comment) = start.strip_prefix('#') {
            found.directive(comment);
            continue;
        }
        if start.is_empty() {
            continue;
        }
        let text = match &*open {
            "" => start,
            _ => {
                // Builders differ in where an instruction ends, so this line may be one.
                found.continuation(start);
                line.trim_end()
            }
        };
        match text.strip_suffix('\\') {
            Some(begin) if begin.ends_with('\\') => found.refuse("a line that ends in `\\\\`"),
            Some(begin) => open.push_str(begin),
            None => found.instruction(&(std::mem::take(&mut open) + text), build_args),
        }
    }
    if !open.is_empty() {
        found.instruction(&open, build_args);
    }
    found
}

impl BuildImages {
    fn refuse(&mut self, what: &'static str) {
        self.unclear.get_or_insert(what);
    }

    fn directive(&mut self, comment: &str) {
        let (name, value) = comment.split_once('=').unwrap_or_default();
        match &*name.trim().to_ascii_lowercase() {
            "escape" => self.refuse("`# escape=`"),
            "syntax" => {
                let image = value.trim();
                let name = image.strip_prefix("docker.io/").unwrap_or(image);
                if name.split(':').next() != Some(FRONTEND) {
                    self.refuse("a `# syntax=` of its own");
                }
                self.names.push(image.to_owned());
            }
            _ => {}
        }
    }

    fn continuation(&mut self, line: &str) {
        let (verb, rest) = verb(line);
        match &*verb {
            "FROM" => self.refuse("a FROM that continues another line"),
            "ONBUILD" => self.trigger(rest),
            _ if is_known(&verb) => self.flags(rest, self.stages.len()),
            _ => {}
        }
    }

    fn instruction(&mut self, line: &str, build_args: &BTreeMap<String, String>) {
        let (verb, rest) = verb(line);
        match &*verb {
            "FROM" => self.from(rest, build_args),
            "ARG" if self.stages.is_empty() => self.arg(rest, build_args),
            "ONBUILD" => self.trigger(rest),
            "ADD" | "COPY" | "RUN" if rest.contains("<<") => self.refuse("a heredoc"),
            _ if is_known(&verb) => self.flags(rest, self.stages.len().saturating_sub(1)),
            _ => self.refuse("a line that is no instruction"),
        }
    }

    /// `ONBUILD`: runs in a later build, which has other stages.
    fn trigger(&mut self, rest: &str) {
        let (_, rest) = verb(rest.trim_start());
        if rest.contains("<<") {
            self.refuse("a heredoc");
        }
        self.flags(rest, 0);
    }

    fn arg(&mut self, rest: &str, build_args: &BTreeMap<String, String>) {
        for word in rest.split_whitespace() {
            let (name, default) = word.split_once('=').unwrap_or((word, ""));
            let unquoted = default
                .strip_prefix('"')
                .and_then(|it| it.strip_suffix('"'));
            let default = unquoted.unwrap_or(default);
            if default.contains(QUOTES) || !is_variable(name) || self.args.contains_key(name) {
                self.refuse("an ARG that is quoted in parts, or set twice");
            }
            let default = || self.expand(default, build_args);
            let value = build_args.get(name).cloned().unwrap_or_else(default);
            self.args.insert(name.to_owned(), value);
        }
    }

    fn from(&mut self, rest: &str, build_args: &BTreeMap<String, String>) {
        let words = rest.split_whitespace();
        let mut words = words.skip_while(|word| word.starts_with("--"));
        let name = self.expand(words.next().unwrap_or_default(), build_args);
        let (kind, stage) = (words.next(), words.next().unwrap_or_default());
        let is_as = kind.is_none_or(|word| word.eq_ignore_ascii_case("as"));
        if rest.contains(QUOTES) || !is_as || words.next().is_some() {
            self.refuse("a FROM that is not `FROM image AS stage`");
        }
        if name != "scratch" && !self.stages.contains(&name.to_ascii_lowercase()) {
            self.names.push(name);
        }
        self.stages.push(stage.to_ascii_lowercase());
    }

    /// Reads the options of an instruction, which may name the first `stages` stages.
    fn flags(&mut self, rest: &str, stages: usize) {
        let words = rest.split_whitespace();
        for word in words.take_while(|word| word.starts_with("--")) {
            if word.contains(QUOTES) {
                self.refuse("a quoted option");
            }
            let is_mount = word.to_ascii_lowercase().starts_with("--mount=");
            let parts = word[if is_mount { 8 } else { 2 }..].split(',');
            let parts = parts.filter_map(|part| part.split_once('='));
            for (_, name) in parts.filter(|(key, _)| key.eq_ignore_ascii_case("from")) {
                let known = &self.stages[..stages];
                let is_number = name.parse().is_ok_and(|at: usize| at < stages);
                if !is_number && !known.contains(&name.to_ascii_lowercase()) {
                    self.names.push(name.to_owned());
                }
            }
        }
    }

    /// `text` with `$name`, `${name}` and `${name:-default}` replaced by values, as far as they are known.
    fn expand(&self, text: &str, build_args: &BTreeMap<String, String>) -> String {
        let Some((head, rest)) = text.split_once('$') else {
            return text.to_owned();
        };
        let (name, default, tail) =
            match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some((inside, tail)) => match inside.split_once(":-") {
                    Some((name, default)) => (name, default, tail),
                    None => (inside, "", tail),
                },
                None => {
                    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let (name, tail) = rest.split_at(end.unwrap_or(rest.len()));
                    (name, "", tail)
                }
            };
        let value = match self.args.get(name) {
            Some(value) if !value.is_empty() => value,
            None if build_args.contains_key(name) => "",
            _ => default,
        };
        // The builder sets these itself.
        let is_own = name.starts_with("TARGET") || name.starts_with("BUILD");
        if value.is_empty() || is_own || !is_variable(name) {
            return text.to_owned();
        }
        format!("{head}{value}{}", self.expand(tail, build_args))
    }
}

fn verb(line: &str) -> (String, &str) {
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (verb.to_ascii_uppercase(), rest)
}

fn is_known(verb: &str) -> bool {
    INSTRUCTIONS.split(' ').any(|known| known == verb)
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(dockerfile: &str) -> BuildImages {
        images(
            dockerfile,
            &BTreeMap::from([("B".to_owned(), "given".to_owned())]),
        )
    }

    #[test]
    fn images_of_a_dockerfile_are_found() {
        for (dockerfile, expected) in [
            (
                "FROM a:1\nRUN x\nFROM b AS c\nFROM c\nCOPY --from=c / /",
                "a:1 b",
            ),
            (
                "from --platform=$X a as s\nFROM s\ncopy --chown=1 --from=S / /\nCOPY --from=0 / /",
                "a",
            ),
            // The stage itself, and later ones, are images.
            (
                "FROM a AS s\nCOPY --from=s / /\nCOPY --from=0 / /\nFROM b AS t",
                "a s 0 b",
            ),
            ("FROM a AS s\nONBUILD COPY --from=s / /", "a s"),
            (
                "# syntax=docker/dockerfile:1.7\nFROM a",
                "docker/dockerfile:1.7 a",
            ),
            (
                "FROM a\nRUN x && \\\n  # note\n\n  y\nCOPY \\\n  --from=b / /",
                "a b",
            ),
            (
                "FROM a\nCOPY --fr\\\nom=b / /\nCOPY --chown=c\\\n --from=d / /",
                "a b d",
            ),
            ("FR\\\nOM \\\n# note\n\n  a\\\nb", "ab"),
            // An instruction to some builders.
            ("FROM a\nRUN x \\\nCOPY --from=b / /", "a b"),
            (
                "ARG A=\"x\"\nARG B=no\nARG C=$A/y\nFROM $A\nFROM ${B}:1\nFROM $C\nFROM ${D:-d}\nFROM ${A:-e}",
                "x given:1 x/y d x",
            ),
            (
                "FROM scratch\nRUN --mount=type=bind,From=m,target=/x --network=none y\nRUN --MOUNT=from=n",
                "m n",
            ),
            ("\u{feff}FROM a\r\nRUN x\r\n", "a"),
        ] {
            let found = found(dockerfile);
            assert_eq!(found.names.join(" "), expected, "{dockerfile}");
            assert_eq!(found.unclear, None, "{dockerfile}");
        }
    }

    #[test]
    fn what_only_the_builder_knows_is_refused() {
        for dockerfile in [
            "# escape=`\nFROM a",
            "#!/x\n# Escape = \\\nFROM a",
            "# syntax=evil/frontend\nFROM a",
            "// syntax=evil/frontend\nFROM a",
            "FROM a\nRUN x \\\nFROM b",
            "FROM a\nRUN <<EOF\nFROM b\nEOF",
            "FROM a\nONBUILD COPY <<EOF /x",
            "FROM a\nRUN x \\\\\nFROM b",
            "FROM 'a'",
            "FROM a b",
            "FROM a AS b c",
            "FROM a\nCOPY --fr'o'm=b / /",
            "FROM a\nRUN --mount=type=bind,\"from=b\" x",
            "ARG A='$B'\nFROM a",
            "ARG A=\"x B=b y\"\nFROM a",
            "ARG A=a\nARG A=b\nFROM $A",
            "FROM a\nEVIL b",
        ] {
            assert!(found(dockerfile).unclear.is_some(), "{dockerfile}");
        }
        let args = BTreeMap::from([("BUILDKIT_SYNTAX".to_owned(), "evil".to_owned())]);
        assert!(images("FROM a", &args).unclear.is_some());
        // A name with a variable is not valid.
        for name in [
            "$UNKNOWN",
            "b$UNKNOWN",
            "${A#y}",
            "${A:+x}",
            "${A-x}",
            "${A#x:-y}",
            "${E:-${A}}",
            "$E",
            "${TARGETARCH:-x}",
            "${B:-x}",
        ] {
            let found = found(&format!("ARG A=a\nARG E\nFROM {name}"));
            let valid = found.names.iter().all(|name| ImageName::new(name).is_ok());
            assert!(
                !valid || found.unclear.is_some(),
                "{name}: {:?}",
                found.names
            );
        }
        let copied = found("ARG A=a\nFROM a\nCOPY --from=$A / /").names;
        assert_eq!(copied, ["a", "$A"]);
    }
}
