"""The packages of an image as a CycloneDX bill of materials (CycloneDX 1.5, JSON)."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

from mindx.sandbox.image_records import BaseImage


def bill_of_materials(image: BaseImage) -> dict[str, Any]:
    """Return the document. Pure: the same image gives the same document, serial number included."""
    vendor = "ubuntu" if "ubuntu" in image.distribution.lower() else "debian"
    components = [
        {
            "type": "library",
            "bom-ref": f"{package.name}-{package.version}-{package.architecture}",
            "name": package.name,
            "version": package.version,
            # The form of the purl specification: https://github.com/package-url/purl-spec
            "purl": f"pkg:deb/{vendor}/{quote(package.name)}@{quote(package.version, safe='')}"
            f"?arch={quote(package.architecture)}",
        }
        for package in image.packages
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, image.image_id)}",
        "version": 1,
        "metadata": {
            "timestamp": image.built_at,
            "component": {
                "type": "container",
                "bom-ref": image.image_id,
                "name": f"mindx-base-{image.name}",
                "version": image.image_id,
                "description": image.distribution,
            },
        },
        "components": components,
    }
