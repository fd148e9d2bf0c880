"""Types of a net and of a compiled net, and what a layer's descriptor says: data that passes hand on."""
