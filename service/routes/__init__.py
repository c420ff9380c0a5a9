"""JSON endpoints of the service: one blueprint a resource, and the OpenAPI document of them."""
