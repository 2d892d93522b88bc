//! The decision about the export of a trace (`OTEL_TRACES_SAMPLER`).

use mcp_core::trace::TraceContext;

/// Decides about a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// True if the decision of the caller counts where there is one.
    follows_parent: bool,
    share: Share,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    All,
    None,
    /// Traces whose id is below this bound: a decision that all programs with the same share make alike.
    Below(u64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            follows_parent: true,
            share: Share::All,
        }
    }
}

impl Sampler {
    /// Parses the variables `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(crate) fn parse(name: &str, share: Option<&str>) -> Result<Self, String> {
        let follows_parent = name.starts_with("parentbased_");
        let share = match name.trim_start_matches("parentbased_") {
            "always_on" => Share::All,
            "always_off" => Share::None,
            "traceidratio" => {
                let share: f64 = share.map_or(Ok(1.0), str::parse).unwrap_or(-1.0);
                if !(0.0..=1.0).contains(&share) {
                    return Err("OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1".to_owned());
                }
                if share == 1.0 {
                    Share::All
                } else {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "it is below 2^63"
                    )]
                    let bound = (share * 2_f64.powi(63)) as u64;
                    Share::Below(bound)
                }
            }
            _ => {
                return Err(
                    "OTEL_TRACES_SAMPLER is not one of always_on, always_off, traceidratio, \
                     parentbased_always_on, parentbased_always_off and parentbased_traceidratio"
                        .to_owned(),
                );
            }
        };
        Ok(Self {
            follows_parent,
            share,
        })
    }

    /// Decides about a trace, which the span `parent` continues.
    pub(crate) fn samples(self, trace_id: u128, parent: Option<&TraceContext>) -> bool {
        if let Some(parent) = parent.filter(|_| self.follows_parent) {
            return parent.is_sampled();
        }
        match self.share {
            Share::All => true,
            Share::None => false,
            // The lower half: its first bits may not be random (W3C Trace Context, "trace-id").
            #[expect(clippy::cast_possible_truncation, reason = "half of the bits")]
            Share::Below(bound) => (trace_id as u64) >> 1 < bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::trace::TraceFields;

    use super::*;

    #[test]
    fn decision_of_the_caller_counts_only_where_the_name_says_so() {
        let parent = |flags: &str| {
            TraceContext::parse(TraceFields {
                parent: Some(&format!(
                    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"
                )),
                ..TraceFields::default()
            })
        };
        let (yes, no) = (parent("01"), parent("00"));
        for (name, without, with_yes, with_no) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
            ("parentbased_traceidratio", true, true, false),
        ] {
            let sampler = Sampler::parse(name, None).unwrap();
            let found = [None, yes.as_ref(), no.as_ref()].map(|parent| sampler.samples(1, parent));
            assert_eq!(found, [without, with_yes, with_no], "{name}");
        }
        let default = Sampler::parse("parentbased_always_on", None);
        assert_eq!(default, Ok(Sampler::default()));
    }

    #[test]
    fn share_of_the_traces_is_kept() {
        let tenth = Sampler::parse("traceidratio", Some("0.1")).unwrap();
        let count = (0..1_024_u128).filter(|n| tenth.samples((n << 54) | n, None));
        assert_eq!(count.count(), 103);
        assert!(
            !Sampler::parse("traceidratio", Some("0"))
                .unwrap()
                .samples(0, None)
        );
        for (name, share) in [("traceidratio", "2"), ("traceidratio", "x"), ("some", "1")] {
            assert!(Sampler::parse(name, Some(share)).is_err(), "{name} {share}");
        }
    }
}
