"""Summaries of the commands in `cbir --help`, which would take seconds to import for their docstrings."""

SUMMARIES = {  # by the entry point's object, so that a command of another package never gets one of these
    "cbir.commands.annotate:app": "Learn severity from comparisons of two images.",
    "cbir.commands.describe_image:describe_image": "Print the descriptor of an image or a CT series.",
    "cbir.commands.draw_phantoms:draw_phantoms": "Draw synthetic images for trying out the program.",
    "cbir.commands.evaluate:app": "Measure the quality of search results.",
    "cbir.commands.find_similar_cases:find_similar_cases": "Search for similar studies, series or instances.",
    "cbir.commands.grade:app": "Grade new images by graded ones.",
    "cbir.commands.manage_collection:app": "Look after a collection.",
    "cbir.commands.manage_encoders:app": "List, show, fetch and add pretrained networks.",
    "cbir.commands.prepare_dataset:app": "Prepare a published data set for indexing.",
    "cbir.commands.rank_images:rank_images": "Score images with a trained ranker.",
    "cbir.commands.report_hits:report_hits": "Report similar images as a DICOM Structured Report.",
    "cbir.commands.search_images:search_images": "Search with images, image ids or text.",
    "cbir.commands.show_config:show_config": "Print settings, their origin and purpose.",
    "cbir.commands.train_models:app": "Train models; needs the extra `deep`.",
    "indexer.index_command:app": "Add files, or a DICOMweb archive, to a collection.",
    "indexer.receive.receive_command:receive": "Receive DICOM images (C-STORE) into a collection.",
    "service.audit_commands:app": "Check the service's audit log for changes.",
    "service.service_commands:serve": "Serve collections over HTTP: API and web pages.",
    "service.token_commands:app": "Create, list and revoke access tokens.",
}
