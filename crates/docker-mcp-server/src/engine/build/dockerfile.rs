//! The images that a Dockerfile uses.
//!
//! A Dockerfile in which a builder could read more than is read here is unclear, not guessed at.

use std::collections::{BTreeMap, BTreeSet};

const INSTRUCTIONS: &str = "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER \
    ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR";
/// The frontend whose syntax is read here.
const FRONTEND: &str = "docker/dockerfile";
const QUOTES: [char; 4] = ['"', '\'', '\\', '`'];

/// The images of a Dockerfile, as far as they are known.
pub(crate) struct BuildImages<'a> {
    /// Of `FROM`, `COPY --from`, `RUN --mount=from=` and `# syntax=`, without those of earlier stages. A
    /// variable that is not known stays in the name, which makes it invalid.
    pub(crate) names: Vec<String>,
    /// Images of `FROM`, each with the number of its stage.
    pub(crate) bases: Vec<(String, usize)>,
    /// A `FROM` names a platform, for which the builder may pull another image than the one that is here.
    pub(crate) has_platform: bool,
    /// Something by which a builder may use others.
    pub(crate) unclear: Option<&'static str>,
    build_args: &'a BTreeMap<String, String>,
    args: BTreeMap<String, String>,
    stages: Vec<String>,
}

/// Reads a Dockerfile.
pub(crate) fn images<'a>(
    dockerfile: &str,
    build_args: &'a BTreeMap<String, String>,
) -> BuildImages<'a> {
    let syntax = build_args.get("BUILDKIT_SYNTAX");
    let mut found = BuildImages {
        names: Vec::new(),
        bases: Vec::new(),
        has_platform: false,
        unclear: syntax.map(|_| "the build argument BUILDKIT_SYNTAX"),
        build_args,
        args: BTreeMap::new(),
        stages: Vec::new(),
    };
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
        let text = if open.is_empty() {
            start
        } else {
            // Builders differ in where an instruction ends, so this line may be one.
            found.instruction(start, true);
            line.trim_end()
        };
        match text.strip_suffix('\\') {
            Some(begin) if begin.ends_with('\\') => found.refuse("a line that ends in `\\\\`"),
            Some(begin) => open.push_str(begin),
            None => found.instruction(&(std::mem::take(&mut open) + text), false),
        }
    }
    if !open.is_empty() {
        found.instruction(&open, false);
    }
    found
}

/// An image that a stage may begin with.
pub(crate) struct BaseImage {
    /// A variable that is not known stays in the name, which makes it invalid.
    pub(crate) name: String,
    /// A stage has the same name, and is meant if it comes before.
    pub(crate) is_stage: bool,
}

/// The images of every `FROM`, also of one that only some builders take for an instruction.
pub(crate) fn bases(dockerfile: &str, build_args: &BTreeMap<String, String>) -> Vec<BaseImage> {
    let found = images(dockerfile, build_args);
    let bases = super::fetch::bases(dockerfile);
    let is_stage = |name: &str| {
        // Others are no names of stages, but may be images.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let mut stages = bases.iter().filter_map(|(_, stage)| stage.as_deref());
        name.chars().all(is_plain) && stages.any(|stage| stage.eq_ignore_ascii_case(name))
    };
    let names: BTreeSet<_> = bases.iter().map(|(name, _)| found.expand(name)).collect();
    let names = names.into_iter().filter(|name| name != "scratch");
    names
        .map(|name| BaseImage {
            is_stage: is_stage(&name),
            name,
        })
        .collect()
}

impl BuildImages<'_> {
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

    /// Reads an instruction that the base image of a stage has for this build.
    pub(crate) fn trigger(&mut self, line: &str, stage: usize) {
        let (verb, rest) = split_verb(line.trim());
        let is_plain = !line.contains(['\n', '\r', '\\']) && is_instruction(&verb);
        if !is_plain || matches!(&*verb, "FROM" | "ONBUILD") || rest.contains("<<") {
            self.refuse("a base image whose ONBUILD is not one plain instruction");
        }
        self.options(rest, stage);
    }

    /// Reads an instruction, or a line that continues one and may be one itself.
    fn instruction(&mut self, line: &str, is_continuation: bool) {
        let (verb, rest) = split_verb(line);
        match &*verb {
            "FROM" if is_continuation => self.refuse("a FROM that continues another line"),
            "FROM" => self.from(rest),
            "ARG" if self.stages.is_empty() && !is_continuation => self.arg(rest),
            "ADD" | "COPY" | "RUN" | "ONBUILD" if rest.contains("<<") => self.refuse("a heredoc"),
            // It runs in a later build, which has other stages.
            "ONBUILD" => self.options(split_verb(rest.trim_start()).1, 0),
            verb if is_instruction(verb) => {
                self.options(rest, self.stages.len().saturating_sub(1));
            }
            _ if is_continuation => {}
            _ => self.refuse("a line that is no instruction"),
        }
    }

    fn arg(&mut self, rest: &str) {
        for word in rest.split_whitespace() {
            let (name, default) = word.split_once('=').unwrap_or((word, ""));
            let unquoted = default
                .strip_prefix('"')
                .and_then(|it| it.strip_suffix('"'));
            let default = unquoted.unwrap_or(default);
            if default.contains(QUOTES) || !is_variable(name) || self.args.contains_key(name) {
                self.refuse("an ARG that is quoted in parts, or set twice");
                // Makes the names invalid that use it.
                self.args.insert(name.to_owned(), "\"".to_owned());
                continue;
            }
            let value = self.build_args.get(name).cloned();
            let value = value.unwrap_or_else(|| self.expand(default));
            self.args.insert(name.to_owned(), value);
        }
    }

    fn from(&mut self, rest: &str) {
        let (options, words): (Vec<_>, Vec<_>) = rest
            .split_whitespace()
            .partition(|word| word.starts_with("--"));
        self.has_platform |= !options.is_empty();
        let mut words = words.into_iter();
        let name = self.expand(words.next().unwrap_or_default());
        let (kind, stage) = (words.next(), words.next().unwrap_or_default());
        let is_as = kind.is_none_or(|word| word.eq_ignore_ascii_case("as"));
        if rest.contains(QUOTES) || !is_as || words.next().is_some() {
            self.refuse("a FROM that is not `FROM image AS stage`");
        }
        if name != "scratch" && !self.stages.contains(&name.to_ascii_lowercase()) {
            self.bases.push((name.clone(), self.stages.len()));
            self.names.push(name);
        }
        self.stages.push(stage.to_ascii_lowercase());
    }

    /// Reads the options of an instruction, which may name the first `stages` stages.
    fn options(&mut self, rest: &str, stages: usize) {
        let words = rest.split_whitespace();
        for word in words.take_while(|word| word.starts_with("--")) {
            if word.contains(QUOTES) {
                self.refuse("a quoted option");
            }
            let is_mount = word.to_ascii_lowercase().starts_with("--mount=");
            let parts = word[if is_mount { 8 } else { 2 }..].split(',');
            let parts = parts.filter_map(|part| part.split_once('='));
            for (_, name) in parts.filter(|(key, _)| key.eq_ignore_ascii_case("from")) {
                let is_number = name.parse().is_ok_and(|at: usize| at < stages);
                if !is_number && !self.stages[..stages].contains(&name.to_ascii_lowercase()) {
                    self.names.push(name.to_owned());
                }
            }
        }
    }

    /// `text` with `$name`, `${name}` and `${name:-default}` replaced by values, as far as they are known.
    fn expand(&self, text: &str) -> String {
        let Some((head, rest)) = text.split_once('$') else {
            return text.to_owned();
        };
        let braces = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, tail) = braces.unwrap_or_else(|| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest.split_at(end.unwrap_or(rest.len()))
        });
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        let value = match self.args.get(name) {
            Some(value) if !value.is_empty() => value,
            None if self.build_args.contains_key(name) => "",
            _ => default,
        };
        // The builder sets these itself.
        let is_own = name.starts_with("TARGET") || name.starts_with("BUILD");
        match value {
            value if value.is_empty() || is_own || !is_variable(name) => text.to_owned(),
            value => format!("{head}{value}{}", self.expand(tail)),
        }
    }
}

fn is_instruction(verb: &str) -> bool {
    INSTRUCTIONS.split(' ').any(|known| known == verb)
}

fn split_verb(line: &str) -> (String, &str) {
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (verb.to_ascii_uppercase(), rest)
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::name::ImageName;

    /// The names, and whether they are all; lines are separated by `;`.
    fn found(dockerfile: &str) -> (String, bool) {
        let args = BTreeMap::from([("B".to_owned(), "given".to_owned())]);
        let text = dockerfile.replace(';', "\n");
        let found = images(&text, &args);
        let valid = found.names.iter().all(|name| ImageName::new(name).is_ok());
        (found.names.join(" "), valid && found.unclear.is_none())
    }

    #[test]
    fn images_of_a_dockerfile_are_found() {
        for row in [
            r"FROM a:1;RUN x;FROM b AS c;FROM c;COPY --from=c / / = a:1 b",
            r"from --platform=$X a as s;FROM s;copy --chown=1 --from=S / /;COPY --from=0 / / = a",
            // The stage itself, and later ones, are images.
            r"FROM a AS s;COPY --from=s / /;COPY --from=0 / /;FROM b AS t = a s 0 b",
            r"FROM a AS s;FROM b;ONBUILD COPY --from=s / / = a b s",
            r"# syntax=docker/dockerfile:1.7;FROM a = docker/dockerfile:1.7 a",
            r"FROM a;RUN x && \;  # note;;  y;COPY \;  --from=b / / = a b",
            r"FROM a;COPY --fr\;om=b / /;COPY --chown=c\; --from=d / / = a b d",
            r"FR\;OM \;# note;;  a\;b = ab",
            // An instruction to some builders.
            r"FROM a AS s;RUN x \;COPY --from=b / /;RUN x \;COPY --from=s / / = a b s",
            r#"ARG A="x";ARG B=no C=$A/y;FROM $A;FROM ${B}:1;FROM $C = x given:1 x/y"#,
            r"ARG A=x;FROM ${D:-d};FROM ${A:-e} = d x",
            r"FROM scratch;RUN --mount=type=bind,From=m:T,target=/x --network=none y = m:T",
        ] {
            let (dockerfile, expected) = row.rsplit_once(" = ").unwrap();
            assert_eq!(found(dockerfile), (expected.to_owned(), true), "{row}");
        }
        assert_eq!(found("\u{feff}FROM a\r;RUN x\r;"), ("a".to_owned(), true));
    }

    /// `COPY --from` of a base image may mean an earlier stage of the build.
    #[test]
    fn instructions_of_base_images_are_read() {
        let args = BTreeMap::new();
        for (trigger, expected) in [
            ("COPY --from=s / /", Some("")),
            ("COPY --from=t / /", Some("t")),
            ("COPY --chown=1 --from=prod:1 / /", Some("prod:1")),
            ("run --mount=type=bind,from=m,target=/x y", Some("m")),
            ("ADD . /", Some("")),
            ("RUN <<EOF\nx\nEOF", None),
            ("RUN true\nCOPY --from=x / /", None),
            ("RUN true\rCOPY --from=x / /", None),
            ("# x\nCOPY --from=x / /", None),
            ("COPY \\\n--from=x / /", None),
            ("# COPY --from=x / /", None),
            ("ONBUILD COPY --from=x / /", None),
            ("EVIL --from=x / /", None),
            ("COPY \"--from=x\" / /", Some("")),
            ("COPY --fr\"o\"m=x / /", None),
            ("COPY --fr\\om=x / /", None),
        ] {
            let mut found = images("FROM a AS s\nFROM b AS t", &args);
            assert_eq!(found.bases, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
            found.trigger(trigger, 1);
            let names = found.unclear.is_none().then(|| found.names[2..].join(" "));
            assert_eq!(names.as_deref(), expected, "{trigger}");
        }
    }

    #[test]
    fn platform_of_a_base_is_seen() {
        let args = BTreeMap::new();
        for (dockerfile, expected) in [
            ("FROM a\nRUN --network=none x", false),
            ("FROM --platform=linux/arm64 a", true),
            ("FROM a AS s\nfrom --PLATFORM=$X s", true),
        ] {
            assert_eq!(
                images(dockerfile, &args).has_platform,
                expected,
                "{dockerfile}"
            );
        }
    }

    #[test]
    fn every_base_of_any_builder_is_found() {
        let args = BTreeMap::from([("B".to_owned(), "given".to_owned())]);
        for (text, expected) in [
            (
                "FROM a:1 AS s;FROM --platform=$X b;FROM s;FROM scratch",
                "a:1 b s*",
            ),
            ("ARG A=x;ARG B;FROM $A;FROM ${B};FROM $C", "$C given x"),
            ("ARG A=x;ARG A=y;FROM $A", "\""),
            ("ARG A='x';FROM $A", "\""),
            ("FR\\;OM \\;# c;;a", "a"),
            ("RUN x \\;FROM b", ""),
            ("# escape=`;RUN x \\;FROM b", "b"),
            ("# escape=`;FROM `;b", "` b"),
            ("RUN x \\\\;FROM b", "b"),
            ("RUN x \\\u{a0};FROM b", "b"),
            ("RUN <<E;FROM b AS s;E;FROM s", "b s*"),
            ("RUN <<E;FROM b AS evil/x;E;FROM evil/x", "b evil/x"),
            ("RUN python <<E;from os import path;E;FROM a", "a"),
            ("FROM \"a\"", "\"a\""),
        ] {
            let found = bases(&text.replace(';', "\n"), &args);
            let found = found.iter().map(|base| match base.is_stage {
                true => format!("{}*", base.name),
                false => base.name.clone(),
            });
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn what_only_the_builder_knows_is_refused() {
        for dockerfile in [
            r"# escape=`;FROM a",
            r"#!/x;# Escape = \;FROM a",
            r"# syntax=evil/frontend;FROM a",
            r"// syntax=evil/frontend;FROM a",
            r"FROM a;RUN x \;FROM b",
            r"FROM a;RUN <<EOF;FROM b;EOF",
            r"FROM a;ONBUILD COPY <<EOF /x",
            r"FROM a;RUN x \\;FROM b",
            r"FROM 'a'",
            r"FROM a b",
            r"FROM a AS b c",
            r"FROM a;COPY --fr'o'm=b / /",
            r#"FROM a;RUN --mount=type=bind,"from=b" x"#,
            r"ARG A=a;FROM a;COPY --from=$A / /",
            r"ARG A='$B';FROM a",
            r#"ARG A="x B=b y";FROM a"#,
            r"ARG A=a;ARG A=b;FROM $A",
            r"FROM a;EVIL b",
        ] {
            assert!(!found(dockerfile).1, "{dockerfile}");
        }
        for name in "$UNKNOWN b$UNKNOWN ${A#y} ${A:+x} ${A-x} ${A#x:-y} ${E:-${A}} $E \
            ${TARGETARCH:-x} ${B:-x}"
            .split_whitespace()
        {
            assert!(!found(&format!("ARG A=a;ARG E;FROM {name}")).1, "{name}");
        }
        let args = BTreeMap::from([("BUILDKIT_SYNTAX".to_owned(), "evil".to_owned())]);
        assert!(images("FROM a", &args).unclear.is_some());
    }
}
