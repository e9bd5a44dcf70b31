//! `millstream bench`: its arguments are those of `millstream-bench`, and are not looked at here.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Args;

use super::GlobalArgs;

const BENCH_OPTIONS: &str = "\
This command starts the program millstream-bench. Its options, and its commands graph, people,
devices, fairness and expressions: `millstream bench --help`.";

#[derive(Debug, Args)]
#[command(after_help = BENCH_OPTIONS, disable_help_flag = true)]
pub(crate) struct BenchStartArgs {
    /// What is measured, under which load
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

impl BenchStartArgs {
    pub(crate) fn asks_for_help(&self) -> bool {
        let is_help = |argument: &OsString| argument == "--help" || argument == "-h";
        self.arguments.iter().any(is_help) || self.arguments.first().is_some_and(|first| first == "help")
    }

    /// The arguments of `millstream-bench`: those after the word `bench`, then the global flags before it and the
    /// engine to start, unless the arguments name another one.
    pub(crate) fn passed_arguments(&self, global: &GlobalArgs, engine: &Path) -> Vec<OsString> {
        let mut passed = self.arguments.clone();
        if self.asks_for_help() {
            return passed;
        }
        let engine = ("--binary", Some(engine.as_os_str().to_owned()));
        for (flag, value) in global.given_flags().into_iter().chain([engine]) {
            if !self.arguments.iter().any(|argument| is_flag(argument, flag)) {
                passed.push(flag.into());
                passed.extend(value);
            }
        }
        passed
    }
}

/// `--flag` or `--flag=value`.
fn is_flag(argument: &OsStr, flag: &str) -> bool {
    let rest = argument.as_encoded_bytes().strip_prefix(flag.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, CliCommand};

    fn passed(line: &str) -> String {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let CliCommand::Bench(args) = &cli.command else { panic!("{:?}", cli.command) };
        let words = args.passed_arguments(&cli.global, "/bin/millstream".as_ref());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bench_arguments_pass_unchanged() {
        let engine = "--binary /bin/millstream";
        assert_eq!(passed("millstream bench"), engine);
        assert_eq!(
            passed("millstream bench graph --embedded --for=5s -x"),
            format!("graph --embedded --for=5s -x {engine}")
        );
        assert_eq!(passed("millstream bench --smoke --binary other"), "--smoke --binary other");
        assert_eq!(passed("millstream bench people --help"), "people --help");
        assert_eq!(passed("millstream bench help people"), "help people");
    }

    #[test]
    fn bench_receives_global_flags() {
        let engine = "--binary /bin/millstream";
        assert_eq!(
            passed("millstream --json --url http://a bench graph --smoke"),
            format!("graph --smoke --json --url http://a {engine}")
        );
        assert_eq!(passed("millstream bench --log debug --smoke"), format!("--smoke --log debug {engine}"));
        // The flag nearest to its command counts.
        assert_eq!(
            passed("millstream --url http://a bench --smoke --url=http://b"),
            format!("--smoke --url=http://b {engine}")
        );
    }
}
