//! "Did you mean": spelling suggestions by edit distance.

/// ` (did you mean "…"?)` when a candidate is near enough to be the intended name, else an empty string.
pub fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest_candidate(word, candidates)
        .map_or_else(String::new, |candidate| format!(" (did you mean {candidate:?}?)"))
}

/// The candidate with the smallest edit distance, at most one edit per three letters; ties take the first.
pub fn nearest_candidate<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed * 4)
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(slips, _)| *slips > 0 && *slips <= allowed)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Damerau–Levenshtein distance: letters to insert, delete, replace or transpose.
fn edit_distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(LONGEST).collect(), b.chars().take(LONGEST).collect());
    let width = b.len() + 1;
    let mut table = vec![0usize; (a.len() + 1) * width];
    for row in 0..=a.len() {
        for column in 0..=b.len() {
            let value = if row == 0 || column == 0 {
                row + column
            } else {
                let differs = usize::from(a[row - 1] != b[column - 1]);
                let mut least = (table[(row - 1) * width + column] + 1)
                    .min(table[row * width + column - 1] + 1)
                    .min(table[(row - 1) * width + column - 1] + differs);
                if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                    least = least.min(table[(row - 2) * width + column - 2] + 1);
                }
                least
            };
            table[row * width + column] = value;
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_gets_a_suggestion() {
        let names = ["shipped", "ready", "paid"];
        assert_eq!(did_you_mean("shiped", names.into_iter()), " (did you mean \"shipped\"?)");
        assert_eq!(did_you_mean("raedy", names.into_iter()), " (did you mean \"ready\"?)");
    }

    #[test]
    fn distant_name_gets_no_suggestion() {
        assert_eq!(did_you_mean("cancelled", ["paid", "done"].into_iter()), "");
        assert_eq!(did_you_mean("x", [].into_iter()), "");
    }
}
