//! Steps of JSON pointers (RFC 6901), in which slashes and tildes are escaped.

pub fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

pub fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_what_they_were() {
        for (step, written) in [("a/b", "a~1b"), ("~1", "~01"), ("~/", "~0~1"), ("", "")] {
            assert_eq!(escape(step), written);
            assert_eq!(unescape(written), step);
        }
    }
}
