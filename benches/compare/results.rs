//! What was measured: series of values, each with a group, a subject and a unit.

use std::collections::BTreeMap;

use serde::Serialize;

/// All values of one thing measured on one subject, in the order of the rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Series {
    /// What was measured, for instance `cold read, 1 reader`.
    pub(crate) group: String,
    /// Of what, for instance `forgefs` or `checkout`.
    pub(crate) subject: String,
    /// The unit: `s`, `bytes`, `requests`.
    pub(crate) unit: &'static str,
    /// One value a round.
    pub(crate) values: Vec<f64>,
}

/// Minimum, median and maximum.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    /// The smallest.
    pub(crate) min: f64,
    /// The median.
    pub(crate) median: f64,
    /// The largest.
    pub(crate) max: f64,
}

/// Returns the spread of `values`; `None` where there are none.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let upper = sorted[sorted.len() / 2];
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(Spread {
        min: first,
        median: f64::midpoint(lower, upper),
        max: last,
    })
}

/// Everything a run found out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Results {
    /// The measured series.
    pub(crate) series: Vec<Series>,
    /// Requests by operation, a map for each round, by group.
    pub(crate) requests: BTreeMap<String, Vec<BTreeMap<String, u64>>>,
    /// Single figures, for instance the number of files of an input.
    pub(crate) facts: BTreeMap<String, f64>,
    /// What agreed (true) or did not (false), for instance `tar of the mount equals git archive`.
    pub(crate) agreements: BTreeMap<String, bool>,
    /// Scenarios that broke, and why.
    pub(crate) failures: Vec<String>,
    /// What others did to the machine meanwhile.
    pub(crate) disturbances: Vec<String>,
    /// What was not measured, and why.
    pub(crate) skipped: Vec<String>,
}

impl Results {
    /// Adds one value.
    pub(crate) fn add(&mut self, group: &str, subject: &str, unit: &'static str, value: f64) {
        let found = self
            .series
            .iter_mut()
            .find(|s| s.group == group && s.subject == subject && s.unit == unit);
        match found {
            Some(series) => series.values.push(value),
            None => self.series.push(Series {
                group: group.to_owned(),
                subject: subject.to_owned(),
                unit,
                values: vec![value],
            }),
        }
    }

    /// Returns the values of `subject` in `group`.
    pub(crate) fn values(&self, group: &str, subject: &str) -> Option<&[f64]> {
        self.series
            .iter()
            .find(|s| s.group == group && s.subject == subject)
            .map(|s| s.values.as_slice())
    }

    /// Returns the ratio of two series: of the medians, with the spread of the rounds' own ratios.
    pub(crate) fn ratio(&self, top: (&str, &str), bottom: (&str, &str)) -> Option<Spread> {
        let top = self.values(top.0, top.1)?;
        let bottom = self.values(bottom.0, bottom.1)?;
        let rounds: Vec<f64> = top.iter().zip(bottom).map(|(t, b)| t / b).collect();
        let of_rounds = spread(&rounds)?;
        Some(Spread {
            median: spread(top)?.median / spread(bottom)?.median,
            ..of_rounds
        })
    }
}
