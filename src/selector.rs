//! Label selectors, as strings and as objects.
