//! The images that a build uses, for the rules about images.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;

use super::Docker;
use crate::name::ImageName;

impl Docker {
    /// Refuses a build that uses an image which the policy hides.
    /// Errors also when a name depends on what only the builder knows.
    pub(crate) async fn permit_build(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        if !self.policy.has_image_rules() {
            return Ok(());
        }
        for name in images(dockerfile, build_args) {
            let image = ImageName::new(&name).map_err(|_| {
                ToolError::invalid_argument(
                    "With rules about images (--allow, --deny) every image of a Dockerfile must be \
                     written out; only ARGs before the first FROM may be in a name.",
                )
            })?;
            self.try_image(&image).await?;
        }
        Ok(())
    }
}

/// The images of `FROM`, `COPY --from` and `RUN --mount=from=`, without those of earlier stages. A
/// variable that is not known stays in the name, which makes it invalid.
pub(crate) fn images(dockerfile: &str, build_args: &BTreeMap<String, String>) -> Vec<String> {
    let (mut args, mut stages, mut found) = (BTreeMap::new(), Vec::new(), Vec::new());
    for line in instructions(dockerfile) {
        let mut words = line.split_whitespace();
        let mut verb = words.next().unwrap_or_default().to_ascii_uppercase();
        if verb == "ONBUILD" {
            verb = words.next().unwrap_or_default().to_ascii_uppercase();
        }
        match &*verb {
            "ARG" if stages.is_empty() => {
                for word in words {
                    let (name, default) = word.split_once('=').unwrap_or((word, ""));
                    let default = expand(default.trim_matches(['"', '\'']), &args);
                    let value = build_args.get(name).cloned().unwrap_or(default);
                    args.insert(name.to_owned(), value);
                }
            }
            "FROM" => {
                let mut words = words.skip_while(|word| word.starts_with("--"));
                let name = words.next().unwrap_or_default();
                let name = expand(name.trim_matches(['"', '\'']), &args);
                let stage = words.nth(1).unwrap_or_default().to_ascii_lowercase();
                if name != "scratch" && !stages.contains(&name.to_ascii_lowercase()) {
                    found.push(name);
                }
                stages.push(stage);
            }
            _ => {
                let flags = words.take_while(|word| word.starts_with("--"));
                let values = flags.flat_map(|flag| flag.trim_start_matches("--mount=").split(','));
                let names =
                    values.filter_map(|value| value.trim_start_matches("--").strip_prefix("from="));
                for name in names.map(|name| expand(name.trim_matches(['"', '\'']), &args)) {
                    let is_stage = stages.contains(&name.to_ascii_lowercase());
                    let is_number = name.parse().is_ok_and(|at: usize| at < stages.len());
                    if !is_stage && !is_number {
                        found.push(name);
                    }
                }
            }
        }
    }
    found
}

/// The instructions, a line each. A line that begins with `FROM` counts also if it seems to continue
/// another one.
fn instructions(dockerfile: &str) -> Vec<String> {
    let lines = dockerfile
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim);
    let is_directive = |line: &&str| line.starts_with('#');
    let mut directives = lines.clone().take_while(is_directive);
    let backtick = directives.any(|line| line.replace(' ', "").eq_ignore_ascii_case("#escape=`"));
    let escape = if backtick { '`' } else { '\\' };
    let (mut all, mut open) = (Vec::new(), String::new());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let is_from = line
            .get(..5)
            .is_some_and(|verb| verb.eq_ignore_ascii_case("from "));
        if is_from && !open.is_empty() {
            all.push(line.to_owned());
        }
        match line.strip_suffix(escape) {
            Some(begin) => open.extend([begin, " "]),
            None => {
                open.push_str(line);
                all.push(std::mem::take(&mut open));
            }
        }
    }
    all.push(open);
    all
}

/// `text` with `$name`, `${name}`, `${name:-default}` and `${name-default}` replaced by values.
fn expand(text: &str, args: &BTreeMap<String, String>) -> String {
    let Some((head, rest)) = text.split_once('$') else {
        return text.to_owned();
    };
    let (name, default, tail) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((inside, tail)) => match inside.split_once('-') {
            Some((name, default)) => (name.trim_end_matches(':'), Some(default), tail),
            None => (inside, None, tail),
        },
        None => {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, tail) = rest.split_at(end.unwrap_or(rest.len()));
            (name, None, tail)
        }
    };
    let value = args.get(name).filter(|value| !value.is_empty());
    match (value.map(String::as_str), default) {
        (Some(value), _) | (None, Some(value)) => format!("{head}{value}{}", expand(tail, args)),
        (None, None) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_dockerfile_are_found() {
        let args = BTreeMap::from([("B".to_owned(), "given".to_owned())]);
        for (dockerfile, expected) in [
            (
                "FROM a:1\nRUN x\nFROM b AS c\nFROM c\nCOPY --from=c / /",
                "a:1 b",
            ),
            (
                "from --platform=$X a as s\ncopy --from=S --chown=1 / /\nCOPY --from=0 / /",
                "a",
            ),
            ("# escape=`\nFROM `\n# note\n\n a", "a"),
            ("FROM \\\n  a\nRUN x \\\nFROM b", "a b"),
            (
                "ARG A=\"x\"\nARG B=no\nARG C=$A/y\nFROM $A\nFROM ${B}:1\nFROM $C\nFROM ${D:-d}",
                "x given:1 x/y d",
            ),
            (
                "FROM scratch\nONBUILD COPY --from=img /a /b\nRUN --mount=type=bind,from=m,target=/x y",
                "img m",
            ),
            ("FROM $UNKNOWN", "$UNKNOWN"),
            ("ARG A=x\nFROM ${A#y}", "${A#y}"),
        ] {
            let found = images(dockerfile, &args);
            assert_eq!(found.join(" "), expected, "{dockerfile}");
        }
    }
}
