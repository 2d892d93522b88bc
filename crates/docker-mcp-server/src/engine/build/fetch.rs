//! The parts of a Dockerfile that let the builder itself fetch, or run with the builder's rights: an `ADD` of an address
//! reads from the host's own network, which a container cannot reach.

use serde_json::Value;

/// The frontend whose instructions are known.
const FRONTEND: &str = "docker/dockerfile";

/// The first thing by which a build reaches the network of the engine's host; `None` if there is none.
///
/// Every line is read as an instruction, also those that continue another line and those of a heredoc:
/// builders differ in where an instruction ends.
pub(crate) fn reaches_host(dockerfile: &str) -> Option<&'static str> {
    let text = dockerfile.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return Some("a text that is no Dockerfile");
    }
    let joined = ['\\', '`'].map(|escape| join(lines(text), escape));
    let joined = joined.iter().flatten().map(String::as_str);
    lines(text).chain(joined).find_map(of_line)
}

/// The words of each `FROM` after its options: an image, and the name of its stage if it has one.
pub(super) fn bases(dockerfile: &str) -> Vec<(String, Option<String>)> {
    let mut all = join(lines(dockerfile), '\\');
    // Builders differ in what continues a line, so every line may be an instruction.
    let is_escape = |line: &str| {
        let comment = line.strip_prefix('#').and_then(|line| line.split_once('='));
        comment.is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("escape"))
    };
    if lines(dockerfile).any(|line| line.ends_with("\\\\") || is_escape(line)) {
        all.extend(lines(dockerfile).map(str::to_owned));
        all.extend(join(lines(dockerfile), '`'));
    }
    let base = |line: &String| {
        let (verb, rest) = line.split_once(char::is_whitespace)?;
        let words: Vec<_> = options(rest.trim_start()).1.split_whitespace().collect();
        let (image, stage) = match words[..] {
            [image] => (image, None),
            [image, word, stage] if word.eq_ignore_ascii_case("as") => (image, Some(stage)),
            _ => return None,
        };
        let found = (image.to_owned(), stage.map(str::to_ascii_lowercase));
        verb.eq_ignore_ascii_case("FROM").then_some(found)
    };
    all.iter().filter_map(base).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().flat_map(|line| line.split('\r'));
    lines.map(|line| line.trim_start().trim_end_matches([' ', '\t']))
}

/// The image of a `# syntax=`, which reads the Dockerfile in place of the builder.
pub(crate) fn frontend(dockerfile: &str) -> Option<&str> {
    dockerfile.lines().find_map(syntax)
}

/// The instructions when lines that end in `escape` are continued, without comments and empty lines.
fn join<'a>(lines: impl Iterator<Item = &'a str>, escape: char) -> Vec<String> {
    let mut joined = vec![String::new()];
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let begin = line.strip_suffix(escape);
        if let Some(open) = joined.last_mut() {
            open.push_str(begin.unwrap_or(line));
        }
        if begin.is_none() {
            joined.push(String::new());
        }
    }
    joined
}

fn of_line(line: &str) -> Option<&'static str> {
    if let Some(image) = syntax(line) {
        let name = image.strip_prefix("docker.io/").unwrap_or(image);
        let is_known = name.split(':').next() == Some(FRONTEND);
        return (!is_known).then_some("a `# syntax=` other than docker/dockerfile");
    }
    let (verb, rest) = line.split_once(char::is_whitespace)?;
    let (options, rest) = options(rest.trim_start());
    match &*verb.to_ascii_uppercase() {
        "ONBUILD" => of_line(rest),
        "ADD" => of_add(rest),
        "RUN" => {
            let is_far = |option: &str| {
                let option = option.to_ascii_lowercase();
                let network = option.strip_prefix("--network=");
                let is_near = |network| matches!(network, "default" | "none");
                network.is_some_and(|network| !is_near(network))
                    || option.starts_with("--security")
                    || option.contains(['"', '\'', '\\', '$']) && option.contains("net")
            };
            let mut options = options.split_whitespace();
            options
                .any(is_far)
                .then_some("a RUN with `--network` or `--security`")
        }
        _ => None,
    }
}

/// The leading options of an instruction, and the rest.
fn options(rest: &str) -> (&str, &str) {
    let mut at = rest;
    while at.starts_with("--") {
        at = at
            .find(char::is_whitespace)
            .map_or("", |end| at[end..].trim_start());
    }
    rest.split_at(rest.len() - at.len())
}

fn syntax(line: &str) -> Option<&str> {
    let line = line.trim();
    let comment = line.strip_prefix('#').or_else(|| line.strip_prefix("//"))?;
    let (name, value) = comment.split_once('=')?;
    let is_syntax = name.trim().eq_ignore_ascii_case("syntax");
    is_syntax.then(|| value.split_whitespace().next().unwrap_or_default())
}

/// Judges the sources of an `ADD`, of which the last word is the destination.
fn of_add(rest: &str) -> Option<&'static str> {
    let mut words: Vec<String> = match serde_json::from_str(rest) {
        Ok(Value::Array(words)) => words
            .iter()
            .map(|word| word.as_str().unwrap_or_default().to_owned())
            .collect(),
        _ => rest.split_whitespace().map(str::to_owned).collect(),
    };
    if words.len() > 1 {
        words.pop();
    }
    let is_far = words.iter().any(|word| !is_file(word));
    is_far.then_some("an ADD of an address, or of a name that may be one")
}

/// Whether a source is a file of the build's directory, whatever the values of variables are.
fn is_file(source: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || " ._-+*?[]{}~,^%=#!".contains(c);
    let first = source.split('/').next().unwrap_or_default();
    let is_relative =
        source.starts_with(['/', '.']) && !first.contains([':', '@', '$', '"', '\'', '\\', '`']);
    let is_heredoc = source.starts_with("<<");
    let is_git = first.eq_ignore_ascii_case("github.com") || source.contains("://");
    is_heredoc || is_relative && !source.contains("://") || first.chars().all(is_plain) && !is_git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_builder_fetches_is_found() {
        for text in [
            "ADD http://127.0.0.1/x /x",
            "add HTTPS://h/x /x",
            "  ADD   http://h/x   /x",
            "\u{feff}ADD http://h/x /x",
            "ADD\thttp://h/x /x",
            "ADD --checksum=sha256:0 http://h/x /x",
            "ADD --chown=1 --keep-git-dir=true https://h/x.git /x",
            "ADD a http://h/x /x",
            "ADD git@h:x /x",
            "ADD me@h:x /x",
            "ADD git://h/x /x",
            "ADD ssh://h/x /x",
            "ADD github.com/a/b /x",
            "ADD GitHub.com/a/b /x",
            r#"ADD ["http://h/x", "/x"]"#,
            r#"ADD ["\u0068ttp://h/x", "/x"]"#,
            r#"ADD ["http:", "/x"]"#,
            r#"ADD "http://h/x" /x"#,
            "ADD ht'tp://h/x' /x",
            r"ADD ht\tp://h/x /x",
            "ADD $X /x",
            "ADD ${X} /x",
            "ADD ${X:-http://h/x} /x",
            "ADD h${X} /x",
            "ADD ht${X}h/x /x",
            "ADD a$X /x",
            "ADD .$X /x",
            "ADD <<E http://h/x /x",
            "AD\\\nD http://h/x /x",
            "ADD \\\n  http://h/x /x",
            "ADD ht\\\ntp://h/x /x",
            "ADD a \\\n# c\n\n  http://h/x /x",
            "# escape=`\nADD `\n  http://h/x /x",
            "RUN x \\\nADD http://h/x /x",
            "RUN <<E\nADD http://h/x /x\nE",
            "x\rADD http://h/x /x",
            "ONBUILD ADD http://h/x /x",
            "onbuild  onbuild add http://h/x /x",
            "RUN --network=host x",
            "run --mount=type=cache,target=/x --NETWORK=Host x",
            "RUN --network=\"host\" x",
            "RUN --security=insecure x",
            "# syntax=evil/frontend",
            "#syntax = docker/dockerfile-evil:1",
            "# syntax=docker.io/evil",
            "# syntax=docker/dockerfile@sha256:0",
            "#!/x\n// syntax=evil",
            "{\"syntax\": \"evil\"}",
        ] {
            assert!(reaches_host(&format!("{text}\nFROM a")).is_some(), "{text}");
        }
    }

    #[test]
    fn usual_dockerfiles_reach_nothing() {
        for text in [
            "ADD app.tar.gz /app",
            "ADD --chown=1:1 . /app",
            "ADD ./app-$VERSION.tar /app",
            "ADD src/$X /app",
            "ADD target/*.jar /app.jar",
            "ADD [\"a b\", \"/x\"]",
            "ADD a b /x/$Y",
            "ADD <<EOF /x\ny\nEOF",
            "RUN curl http://127.0.0.1/ADD",
            "RUN add-user x && ADDX http://h",
            "RUN --network=none x\nRUN --network=default y",
            "RUN --mount=type=cache,target=/x y",
            "COPY --from=a http://x /y",
            "ENV X=http://h/x",
            "# ADD http://h/x /x",
            "# syntax=docker/dockerfile:1.7-labs",
            "# syntax = docker.io/docker/dockerfile",
            "# the syntax of this\nCMD [\"ADD\", \"http://h\"]",
        ] {
            assert_eq!(reaches_host(&format!("{text}\nFROM a")), None, "{text}");
        }
        assert_eq!(
            frontend("# c\n# syntax=docker/dockerfile:1 x"),
            Some("docker/dockerfile:1")
        );
        assert_eq!(frontend("FROM a"), None);
    }
}
