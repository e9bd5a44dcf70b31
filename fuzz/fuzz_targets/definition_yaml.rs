//! libFuzzer's way into the target `definition_yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = millstream_fuzz::Target::named("definition_yaml").expect("the list has it");
    (target.check)(input);
});
